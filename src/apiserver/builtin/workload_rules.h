#pragma once

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/fields.h"

// What the kinds that make pods from a template have in common.

namespace basalt::apiserver {

// spec of an object, {} if absent.
[[nodiscard]] const json::Value& spec_or_nothing(const json::Value& object);
// spec of an object to be changed, made if absent; null if it is something else than an object.
[[nodiscard]] json::Value* ensure_spec(json::Value& object);

// A selector that is there, is not empty and is valid. `kind` is how the complaint about an empty one calls the kind.
void check_workload_selector(const json::Value& spec, std::string_view kind, Causes& causes);
// The template, whose labels the selector must select and whose pods must restart (`kind` as users write it).
void check_workload_template(const json::Value& spec, std::string_view kind, Causes& causes);
// Null: there is no selector, which is never right.
void check_template_labels(const json::Value* selector, const json::Value& spec, Causes& causes);
// "25%" or a number, neither negative.
void check_int_or_percent(const json::Value& value, const FieldPath& path, Causes& causes);

// Names and images of a template's containers, comma-separated.
[[nodiscard]] std::string container_names_cell(const json::Value& object);
[[nodiscard]] std::string container_images_cell(const json::Value& object);
[[nodiscard]] std::vector<PrinterColumn> with_template_columns(std::vector<PrinterColumn> columns, bool has_selector);

// batch/v1 (job_types.cc).
[[nodiscard]] TypeList job_types();
// v1 (workload_types.cc).
[[nodiscard]] TypeList core_workload_types();

}  // namespace basalt::apiserver
