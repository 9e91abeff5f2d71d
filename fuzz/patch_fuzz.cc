// Patches: the first line is a document, the second a patch. Whatever the patch, the result is a document of bounded
// depth; the difference of two documents, applied to the one, gives the other.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "json/merge_patch.h"
#include "json/patch.h"
#include "json/strategic_core.h"

using basalt::json::Value;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos) return 0;
  const auto document = Value::parse(text.substr(0, line_end));
  const auto patch = Value::parse(text.substr(line_end + 1));
  if (!document.ok() || !patch.ok()) return 0;
  const int depth_max = std::max(document->depth(), patch->depth());

  if (const auto result = basalt::json::apply_json_patch(*document, *patch); result.ok()) {
    BASALT_CHECK(result->depth() <= std::max(document->depth(), basalt::json::PatchLimits().depth_max));
  }
  basalt::json::PatchLimits unlimited;
  unlimited.operations_max = unlimited.shifts_max = SIZE_MAX;
  const auto there =
      basalt::json::apply_json_patch(*document, basalt::json::make_json_patch(*document, *patch), unlimited);
  BASALT_CHECK(there.ok() && *there == *patch);

  const Value merged = basalt::json::apply_merge_patch(*document, *patch);
  BASALT_CHECK(merged.depth() <= depth_max);
  // What a merge patch makes of nothing has no null members, so it can be reached.
  const Value reachable = basalt::json::apply_merge_patch(Value(), *patch);
  const Value difference = basalt::json::make_merge_patch(*document, reachable);
  BASALT_CHECK(basalt::json::apply_merge_patch(*document, difference) == reachable);

  const auto* const schema = basalt::json::core_strategic_schema("", "Pod");
  if (const auto result = basalt::json::apply_strategic_merge(*document, *patch, *schema); result.ok()) {
    BASALT_CHECK(result->depth() <= depth_max);
  }
  return 0;
}
