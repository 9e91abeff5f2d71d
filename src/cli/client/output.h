#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/go_flags.h"
#include "json/value.h"
#include "kube/client.h"

namespace basalt::api {
struct KindInfo;
}

namespace basalt::cli {

// -o, --output: "" (a table), "wide", "json", "yaml", "name".
void add_output_flag(GoFlags& flags, std::string& output);

[[nodiscard]] inline bool prints_objects(std::string_view output) {
  return output == "json" || output == "yaml" || output == "name";
}

// The objects as `output` says, which is json, yaml or name: one as it is, several (or `as_list`) as a List. Without
// managedFields, with apiVersion and kind.
[[nodiscard]] Done print_objects(std::ostream& out, std::string_view output, const api::KindInfo& kind,
                                 const std::vector<kube::Bytes>& objects, bool as_list);

// One object without managedFields and with apiVersion and kind.
[[nodiscard]] Result<json::Value> shown_object(const api::KindInfo& kind, std::string_view text);

}  // namespace basalt::cli
