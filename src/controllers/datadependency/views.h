#pragma once

#include <string>

#include "api/gen/meta.h"
#include "json/raw.h"
#include "json/reader.h"

namespace basalt::controllers::datadependency {

// A ResourceBinding as it came: our part of it is computed on the whole, so that nothing of newer versions is lost.
struct BindingView {
  struct Metadata {
    std::string name;
    std::string namespace_;
    std::string uid;
    std::string resource_version;
  };
  Metadata metadata;
  std::string workload;  // the key of the workload; "" if the binding names none
  std::string created;   // metadata.creationTimestamp
  std::string text;
};
void decode(json::Reader& reader, BindingView& view);

// What is needed of a Cluster: that it is there.
struct ClusterView {
  BindingView::Metadata metadata;
};
void decode(json::Reader& reader, ClusterView& view);

}  // namespace basalt::controllers::datadependency
