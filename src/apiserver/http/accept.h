#pragma once

#include <cstddef>
#include <span>
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

// Which of the offered media types is sent, by its place: the first that the best wish takes, whatever its parameters
// but the weight say. The first offered one without a header. NotAcceptable if no wish takes any.
[[nodiscard]] Result<std::size_t> choose_media_type(std::string_view accept, std::span<const std::string_view> offered);

}  // namespace basalt::apiserver
