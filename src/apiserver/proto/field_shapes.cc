#include "apiserver/proto/field_shapes.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>

namespace basalt::apiserver::proto {
namespace {

struct NamedField {
  std::string_view name;
  const FieldFact* fact = nullptr;
};

// The fields of every message in the order of their JSON names, those of inlined messages among them.
class FieldsByName {
 public:
  FieldsByName() {
    const auto messages = message_facts();
    fields_.resize(messages.size());
    for (std::size_t i = 0; i < messages.size(); ++i) {
      collect(messages[i], fields_[i], 0);
      std::sort(fields_[i].begin(), fields_[i].end(),
                [](const NamedField& a, const NamedField& b) { return a.name < b.name; });
    }
  }
  [[nodiscard]] const std::vector<NamedField>& of(const MessageFact& message) const {
    return fields_[static_cast<std::size_t>(&message - message_facts().data())];
  }

 private:
  static constexpr int kInlineDepthMax = 8;
  static void collect(const MessageFact& message, std::vector<NamedField>& out, int depth) {
    for (const FieldFact& field : field_facts().subspan(message.first_field, message.field_count)) {
      if (field.shape == Shape::Inline && field.form == Form::Message) {
        if (depth < kInlineDepthMax) collect(message_facts()[field.message], out, depth + 1);
      } else {
        out.push_back({field.json_name, &field});
      }
    }
  }
  std::vector<std::vector<NamedField>> fields_;
};

const FieldsByName& fields_by_name() {
  static const FieldsByName fields;
  return fields;
}

std::string scalar_name(const FieldFact& field) {
  switch (field.form) {
    case Form::Bool:
      return "bool";
    case Form::Int32:
      return "int32";
    case Form::Int64:
      return "int64";
    case Form::Double:
      return "float64";
    case Form::Text:
      return "string";
    case Form::Bytes:
      return "[]uint8";
    case Form::Message:
      return message_facts()[field.message].name;
  }
  return "value";
}

std::string type_name(const FieldFact& field) {
  const std::string name = scalar_name(field);
  if (field.shape == Shape::Repeated) return "[]" + name;
  if (field.shape == Shape::Map) return "map[string]" + name;
  return name;
}

// As Go's JSON decoder calls what it found.
std::string_view found_name(const json::Value& value) {
  if (value.is_string()) return "string";
  if (value.is_bool()) return "bool";
  if (value.is_number()) return "number";
  return value.is_array() ? "array" : "object";
}

// Walks one object; keeps the path to what it looks at.
class Fitter {
 public:
  explicit Fitter(std::vector<std::string>* unknown) : unknown_(unknown) {}

  Done message(const MessageFact& fact, json::Value& value) {
    switch (fact.form) {
      case MessageForm::Object:
        return object(fact, value);
      case MessageForm::Items: {
        if (!value.is_array()) return wrong(value, std::string("[]") + fact.name);
        const FieldFact& items = field_facts()[fact.first_field];
        return elements(items, value);
      }
      case MessageForm::Quantity:
        return value.is_string() || value.is_number() ? Done(Ok{}) : Done(wrong(value, "Quantity"));
      case MessageForm::IntOrString:
        return value.is_string() || value.is_int() ? Done(Ok{}) : Done(wrong(value, "IntOrString"));
      case MessageForm::Time:
      case MessageForm::MicroTime:
      case MessageForm::Duration:
        return value.is_string() ? Done(Ok{}) : Done(wrong(value, fact.name));
      case MessageForm::Union:
      case MessageForm::Raw:
        return Ok{};
    }
    return Ok{};
  }

 private:
  Done object(const MessageFact& fact, json::Value& value) {
    if (!value.is_object()) return wrong(value, fact.name);
    const std::vector<NamedField>& fields = fields_by_name().of(fact);
    auto known = fields.begin();
    bool has_unknown = false;
    // Both sides are sorted by name.
    for (auto& [key, member] : value.as_object()) {
      while (known != fields.end() && known->name < key) ++known;
      if (known == fields.end() || known->name != key) {
        // Kind and version stand in every object and in no message.
        has_unknown |= !(path_.empty() && (key == "apiVersion" || key == "kind"));
        continue;
      }
      if (member.is_null()) continue;
      path_.push_back({key, 0});
      BASALT_TRY_DONE(field(*known->fact, member));
      path_.pop_back();
    }
    if (has_unknown) drop_unknown(fields, value.as_object());
    return Ok{};
  }

  void drop_unknown(const std::vector<NamedField>& fields, json::Object& members) {
    const bool is_root = path_.empty();
    members.erase_if([&](const json::Member& member) {
      if (is_root && (member.key == "apiVersion" || member.key == "kind")) return false;
      const auto at = std::lower_bound(fields.begin(), fields.end(), std::string_view(member.key),
                                       [](const NamedField& field, std::string_view key) { return field.name < key; });
      if (at != fields.end() && at->name == member.key) return false;
      if (unknown_ != nullptr) unknown_->push_back(is_root ? member.key : path() + "." + member.key);
      return true;
    });
  }

  Done field(const FieldFact& fact, json::Value& value) {
    if (fact.shape == Shape::Repeated) {
      if (!value.is_array()) return wrong(value, type_name(fact));
      return elements(fact, value);
    }
    if (fact.shape == Shape::Map) {
      if (!value.is_object()) return wrong(value, type_name(fact));
      for (auto& [key, member] : value.as_object()) {
        if (member.is_null()) continue;
        path_.push_back({key, 0});
        BASALT_TRY_DONE(single(fact, member));
        path_.pop_back();
      }
      return Ok{};
    }
    return single(fact, value);
  }

  Done elements(const FieldFact& fact, json::Value& list) {
    std::size_t index = 0;
    for (json::Value& element : list.as_array()) {
      path_.push_back({{}, index++});
      if (!element.is_null()) BASALT_TRY_DONE(single(fact, element));
      path_.pop_back();
    }
    return Ok{};
  }

  Done single(const FieldFact& fact, json::Value& value) {
    bool fits = false;
    switch (fact.form) {
      case Form::Bool:
        fits = value.is_bool();
        break;
      case Form::Int32:
        fits = value.is_int() && value.as_int() >= std::numeric_limits<std::int32_t>::min() &&
               value.as_int() <= std::numeric_limits<std::int32_t>::max();
        break;
      case Form::Int64:
        fits = value.is_int();
        break;
      case Form::Double:
        fits = value.is_number();
        break;
      case Form::Text:
      case Form::Bytes:
        fits = value.is_string();
        break;
      case Form::Message:
        return message(message_facts()[fact.message], value);
    }
    if (fits) return Ok{};
    return wrong(value, scalar_name(fact));
  }

  [[nodiscard]] Error wrong(const json::Value& value, std::string_view wanted) const {
    std::string found(found_name(value));
    if (value.is_number()) found += " " + value.to_text();
    return Error::make(Reason::BadRequest, "json: cannot unmarshal " + found + " into Go struct field " + path() +
                                               " of type " + std::string(wanted));
  }

  [[nodiscard]] std::string path() const {
    std::string text;
    for (const Step& step : path_) {
      if (step.key.data() == nullptr) {
        text += "[" + std::to_string(step.index) + "]";
      } else {
        if (!text.empty()) text += '.';
        text += step.key;
      }
    }
    return text;
  }

  // Where it stands: a member, or an element (no key). Put into words only when something is said.
  struct Step {
    std::string_view key;
    std::size_t index = 0;
  };
  std::vector<std::string>* unknown_;
  std::vector<Step> path_;
};

}  // namespace

const MessageFact* message_of_kind(std::string_view api_version, std::string_view kind) {
  static const auto messages = [] {
    std::map<std::pair<std::string_view, std::string_view>, const MessageFact*> all;
    for (const KindFact& fact : kind_facts())
      all.emplace(std::pair<std::string_view, std::string_view>(fact.api_version, fact.kind),
                  &message_facts()[fact.message]);
    return all;
  }();
  const auto found = messages.find({api_version, kind});
  return found == messages.end() ? nullptr : found->second;
}

Done fit_to_message(const MessageFact& message, json::Value& object, std::vector<std::string>* unknown) {
  return Fitter(unknown).message(message, object);
}

}  // namespace basalt::apiserver::proto
