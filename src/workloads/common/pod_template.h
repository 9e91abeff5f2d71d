#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "json/value.h"
#include "rt/runtime.h"
#include "workloads/common/object.h"

namespace basalt::workloads {

// A pod of a template, controlled by the owner, without a name.
[[nodiscard]] json::Value pod_of_template(const json::Value& pod_template, const OwnerKind& kind, const Object& owner);

// A name as the API server makes it of metadata.generateName: the prefix, cut so that the whole fits a label, and five
// characters that hardly ever spell a word.
[[nodiscard]] std::string generated_name(rt::Runtime& runtime, std::string_view prefix);
// The number written with the same characters, for hashes in names and labels.
[[nodiscard]] std::string safe_text(std::uint64_t number);
// Of everything in a template, and how often such a hash was taken by another one before.
[[nodiscard]] std::string template_hash(const json::Value& pod_template, std::int64_t collisions);

}  // namespace basalt::workloads
