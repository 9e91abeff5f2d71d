#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "apiserver/registry/resource_type.h"
#include "json/merge_patch.h"
#include "json/value.h"
#include "yaml/reader.h"

// Tables of objects that differ from a valid one in one place, written as YAML, with the complaints that are due.

namespace basalt::apiserver {

inline json::Value from_yaml(std::string_view text) {
  auto value = yaml::read(text);
  EXPECT_TRUE(value.ok()) << text << "\n" << (value.ok() ? "" : value.error().message);
  return value.ok() ? std::move(*value) : json::Value(json::Object());
}

// `base` with a merge patch: lists are replaced, null removes.
inline json::Value changed(std::string_view base, std::string_view patch) {
  return patch.empty() ? from_yaml(base) : json::apply_merge_patch(from_yaml(base), from_yaml(patch));
}

inline std::shared_ptr<const ResourceType> type_named(std::string_view group, std::string_view plural) {
  auto type = builtin_types()->find(group, "v1", plural);
  EXPECT_NE(type, nullptr) << plural;
  return type;
}

// As the server does it before validation.
inline json::Value prepared(const ResourceType& type, json::Value object) {
  type.strategy->prune(object, nullptr);
  type.strategy->apply_defaults(object);
  type.strategy->prepare_for_create(object);
  return object;
}

inline std::vector<std::string> texts_of(const Causes& causes) {
  std::vector<std::string> texts;
  for (const Cause& cause : causes) {
    texts.push_back(cause.field.empty() ? cause.message : cause.field + ": " + cause.message);
  }
  return texts;
}

inline std::vector<std::string> create_complaints(const ResourceType& type, json::Value object) {
  object = prepared(type, std::move(object));
  Causes causes;
  type.strategy->validate_create(object, causes);
  return texts_of(causes);
}

inline std::vector<std::string> update_complaints(const ResourceType& type, const json::Value& old, json::Value object,
                                                  WritePart part = WritePart::Main) {
  type.strategy->prune(object, nullptr);
  type.strategy->apply_defaults(object);
  type.strategy->prepare_for_update(object, old, part);
  Causes causes;
  type.strategy->validate_update(object, old, part, causes);
  return texts_of(causes);
}

// One line of a table: what the base object is changed to, and what is wrong with it then. Nothing is: it is valid.
struct ValidationCase {
  std::string_view change;
  std::vector<std::string> complaints = {};
};

inline void expect_create(const ResourceType& type, std::string_view base, const std::vector<ValidationCase>& table) {
  for (const ValidationCase& line : table) {
    EXPECT_EQ(create_complaints(type, changed(base, line.change)), line.complaints) << line.change;
  }
}

// Each line changes a stored object that was made from `base`.
inline void expect_update(const ResourceType& type, std::string_view base, const std::vector<ValidationCase>& table,
                          WritePart part = WritePart::Main) {
  const json::Value old = prepared(type, from_yaml(base));
  for (const ValidationCase& line : table) {
    const json::Value object = json::apply_merge_patch(old, from_yaml(line.change));
    EXPECT_EQ(update_complaints(type, old, object, part), line.complaints) << line.change;
  }
}

struct DefaultsCase {
  std::string_view given;
  std::string_view expected;  // of the members that it names
};

// Whether everything that `expected` has is the same in `object`.
inline void expect_contains(const json::Value& object, const json::Value& expected, std::string_view what) {
  const json::Value merged = json::apply_merge_patch(object, expected);
  EXPECT_EQ(merged.to_pretty_text(), object.to_pretty_text()) << what;
}

inline std::string cells_text(const ResourceType& type, std::string_view object, std::string_view now) {
  const json::Array cells = type.strategy->table_cells(from_yaml(object), type.columns, *api::Time::parse(now));
  EXPECT_EQ(cells.size(), type.columns.size());
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += (i == 0 ? "" : " | ") + (cells[i].is_string() ? cells[i].as_string() : cells[i].to_text());
  }
  return text;
}

}  // namespace basalt::apiserver
