#include "cli/client/output.h"

#include <ostream>

#include "api/kind_info.h"
#include "yaml/writer.h"

namespace basalt::cli {

void add_output_flag(GoFlags& flags, std::string& output) {
  flags.choice("output", output, {"wide", "json", "yaml", "name"}, "what to print instead of the usual table", 'o');
}

Result<json::Value> shown_object(const api::KindInfo& kind, std::string_view text) {
  BASALT_TRY(json::Value value, json::Value::parse(text));
  if (!value.is_object()) return Error::invalid_input("the server sent something that is no object");
  json::Object& object = value.as_object();
  // Lists of built-in kinds carry neither.
  if (!object.contains("apiVersion")) object.set("apiVersion", kind.api_version());
  if (!object.contains("kind")) object.set("kind", kind.kind);
  if (json::Value* metadata = value.find("metadata"); metadata != nullptr && metadata->is_object())
    metadata->as_object().erase("managedFields");
  return value;
}

Done print_objects(std::ostream& out, std::string_view output, const api::KindInfo& kind,
                   const std::vector<kube::Bytes>& objects, bool as_list) {
  json::Array items;
  for (const kube::Bytes& bytes : objects) {
    BASALT_TRY(json::Value value, shown_object(kind, *bytes));
    if (output == "name") {
      out << kind.singular << (kind.group.empty() ? "" : ".") << kind.group << "/"
          << value.string_at({"metadata", "name"}) << "\n";
      continue;
    }
    items.push_back(std::move(value));
  }
  if (output == "name") return Ok{};
  json::Value shown;
  if (!as_list && items.size() == 1) {
    shown = std::move(items.front());
  } else {
    shown = json::Object{{"apiVersion", "v1"},
                         {"items", std::move(items)},
                         {"kind", "List"},
                         {"metadata", json::Object{{"resourceVersion", ""}}}};
  }
  if (output == "json") {
    out << shown.to_pretty_text() << "\n";
  } else {
    out << yaml::write(shown);
  }
  return Ok{};
}

}  // namespace basalt::cli
