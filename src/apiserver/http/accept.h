#pragma once

#include <string_view>

#include "base/result.h"

namespace basalt::apiserver {

// In which form an object, a list or an event is sent. All of them are JSON.
enum class AnswerForm { Object, Table, Metadata, MetadataList };

struct Answer {
  AnswerForm form = AnswerForm::Object;
  std::string_view version = "v1";  // of meta.k8s.io, for all forms but Object: v1, v1beta1
};

// The first of an Accept header's wishes, by weight and then by place, that can be met. Without a header: Object.
// `converts`: whether tables and metadata can be made of what was asked for. NotAcceptable if no wish can be met.
[[nodiscard]] Result<Answer> negotiate(std::string_view accept, bool converts);

}  // namespace basalt::apiserver
