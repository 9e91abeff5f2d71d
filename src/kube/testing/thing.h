#pragma once

#include <cstdint>
#include <string>

#include "json/reader.h"
#include "kube/client.h"

namespace basalt::kube::testing {

// A small kind for tests: metadata, an owner and a value.
struct Thing {
  struct Metadata {
    std::string name;
    std::string namespace_;
    std::string uid;
    std::string resource_version;
  } metadata;
  std::string owner;
  std::int64_t value = 0;
};

inline const Resource& things() {
  static const Resource resource{"test.basalt", "v1", "things"};
  return resource;
}

inline std::string thing_text(std::string_view ns, std::string_view name, std::int64_t value,
                              std::string_view owner = "") {
  return R"({"kind":"Thing","apiVersion":"test.basalt/v1","metadata":{"namespace":")" + std::string(ns) +
         R"(","name":")" + std::string(name) + R"("},"owner":")" + std::string(owner) + R"(","value":)" +
         std::to_string(value) + "}";
}

inline void decode(json::Reader& reader, Thing& thing) {
  std::string_view key;
  if (!reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (key == "owner") {
      reader.read_string(thing.owner);
    } else if (key == "value") {
      thing.value = reader.read_int64();
    } else if (key == "metadata") {
      if (!reader.begin_object()) return;
      while (reader.next_member(key)) {
        if (key == "name") {
          reader.read_string(thing.metadata.name);
        } else if (key == "namespace") {
          reader.read_string(thing.metadata.namespace_);
        } else if (key == "uid") {
          reader.read_string(thing.metadata.uid);
        } else if (key == "resourceVersion") {
          reader.read_string(thing.metadata.resource_version);
        } else {
          reader.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
}

}  // namespace basalt::kube::testing
