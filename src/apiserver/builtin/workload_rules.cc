#include "apiserver/builtin/workload_rules.h"

#include <algorithm>

#include "api/names.h"
#include "apiserver/builtin/pod_validation.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

bool is_empty_selector(const json::Value& selector) {
  return map_at(selector, "matchLabels").empty() && list_at(selector, "matchExpressions").empty();
}

bool has_value(const json::Array& values, std::string_view value) {
  return std::find(values.begin(), values.end(), json::Value(value)) != values.end();
}

bool selects(const json::Value& selector, const json::Object& labels) {
  for (const json::Member& wanted : map_at(selector, "matchLabels")) {
    const json::Value* value = labels.find(wanted.key);
    if (value == nullptr || *value != wanted.value) return false;
  }
  for (const json::Value& term : list_at(selector, "matchExpressions")) {
    const json::Value* value = labels.find(text_at(term, "key"));
    const bool has_label = value != nullptr && value->is_string();
    const std::string_view op = text_at(term, "operator");
    const bool is_listed = has_label && has_value(list_at(term, "values"), value->as_string());
    if ((op == "In" && !is_listed) || (op == "NotIn" && is_listed) || (op == "Exists" && !has_label) ||
        (op == "DoesNotExist" && has_label)) {
      return false;
    }
  }
  return true;
}

std::string joined_texts(const json::Value& object, std::string_view name) {
  std::string text;
  for (const json::Value& container : list_at(object, {"spec", "template", "spec", "containers"})) {
    if (!text.empty()) text += ',';
    text += text_at(container, name);
  }
  return text;
}

}  // namespace

const json::Value& spec_or_nothing(const json::Value& object) {
  static const json::Value kNothing{json::Object()};
  const json::Value* spec = member(object, "spec");
  return spec != nullptr ? *spec : kNothing;
}

json::Value* ensure_spec(json::Value& object) {
  return ensure_map(object.as_object(), "spec") != nullptr ? object.find("spec") : nullptr;
}

void check_workload_selector(const json::Value& spec, std::string_view kind, Causes& causes) {
  const json::Value* selector = member(spec, "selector");
  if (selector == nullptr) {
    causes.push_back(required("spec.selector"));
    return;
  }
  const FieldPath path("spec");
  check_label_selector(*selector, path.child("selector"), causes);
  if (is_empty_selector(*selector)) {
    causes.push_back(
        invalid_value("spec.selector", shown(*selector), "empty selector is invalid for " + std::string(kind)));
  }
}

void check_template_labels(const json::Value* selector, const json::Value& spec, Causes& causes) {
  const json::Object& labels = map_at(spec, {"template", "metadata", "labels"});
  // An absent selector selects nothing, an empty one everything.
  if (selector != nullptr && (is_empty_selector(*selector) || selects(*selector, labels))) return;
  causes.push_back(invalid_value("spec.template.metadata.labels", labels.empty() ? "null" : shown(json::Value(labels)),
                                 "`selector` does not match template `labels`"));
}

void check_workload_template(const json::Value& spec, std::string_view kind, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(spec, "template");
  const json::Value& pod_template = found != nullptr ? *found : kNothing;
  check_template_labels(member(spec, "selector"), spec, causes);
  const FieldPath path("spec");
  validate_pod_template(pod_template, path.child("template"), causes);
  const std::string_view policy = pod_template.string_at({"spec", "restartPolicy"});
  if (policy != "Always" && !policy.empty()) {
    constexpr std::string_view kOnly[] = {"Always"};
    causes.push_back(not_supported("spec.template.spec.restartPolicy", base::quote(policy), kOnly));
  }
  if (pod_template.find_path({"spec", "activeDeadlineSeconds"}) != nullptr) {
    causes.push_back(forbidden_field("spec.template.spec.activeDeadlineSeconds",
                                     "activeDeadlineSeconds in " + std::string(kind) + " is not Supported"));
  }
}

void check_int_or_percent(const json::Value& value, const FieldPath& path, Causes& causes) {
  if (value.is_string()) {
    for (const std::string& complaint : api::percent_complaints(value.as_string())) {
      causes.push_back(invalid_value(path.text(), shown(value), complaint));
    }
  } else if (value.is_int()) {
    if (value.as_int() < 0) {
      causes.push_back(invalid_value(path.text(), shown(value), "must be greater than or equal to 0"));
    }
  } else {
    causes.push_back(invalid_value(path.text(), shown(value), "must be an integer or percentage (e.g '5%%')"));
  }
}

std::string container_names_cell(const json::Value& object) { return joined_texts(object, "name"); }

std::string container_images_cell(const json::Value& object) { return joined_texts(object, "image"); }

std::vector<PrinterColumn> with_template_columns(std::vector<PrinterColumn> columns, bool has_selector) {
  columns.push_back(column("Containers", "string", "Names of the template's containers.", 1));
  columns.push_back(column("Images", "string", "Images of the template's containers.", 1));
  if (has_selector) columns.push_back(column("Selector", "string", "The pods that belong to it.", 1));
  return columns;
}

}  // namespace basalt::apiserver
