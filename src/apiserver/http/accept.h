#pragma once

#include <string_view>

#include "base/result.h"

namespace basalt::apiserver {

// In which form an object, a list or an event is sent.
enum class AnswerForm { Object, Table, Metadata, MetadataList };

struct Answer {
  AnswerForm form = AnswerForm::Object;
  std::string_view version = "v1";  // of meta.k8s.io, for all forms but Object: v1, v1beta1
  bool is_protobuf = false;         // else JSON
};

// The first of an Accept header's wishes, by weight and then by place, that can be met. Without a header: Object.
// JSON is chosen wherever it is taken; protobuf only for a client that insists on it. NotAcceptable if no wish can be
// met.
struct Offer {
  bool converts = true;       // tables and metadata can be made of what was asked for
  bool has_protobuf = false;  // it has a protobuf form
};
[[nodiscard]] Result<Answer> negotiate(std::string_view accept, Offer offer);

}  // namespace basalt::apiserver
