// Events in their two forms: v1 of the core group, which is stored, and v1 of events.k8s.io, which is the same objects
// with newer names.

#include <algorithm>
#include <utility>

#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/misc_types.h"
#include "apiserver/registry/generic_strategy.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kWordBytesMax = 128;
constexpr std::size_t kMessageBytesMax = 1024;

struct Renamed {
  std::string_view served;
  std::string_view stored;
};
constexpr Renamed kRenamed[] = {{"note", "message"},
                                {"regarding", "involvedObject"},
                                {"reportingController", "reportingComponent"},
                                {"deprecatedSource", "source"},
                                {"deprecatedFirstTimestamp", "firstTimestamp"},
                                {"deprecatedLastTimestamp", "lastTimestamp"},
                                {"deprecatedCount", "count"}};

void rename(json::Value& event, std::string_view from, std::string_view to) {
  json::Object& members = event.as_object();
  json::Value* value = members.find(from);
  if (value == nullptr) return;
  json::Value moved = std::move(*value);
  members.erase(from);
  members.set(to, std::move(moved));
}

void to_core(json::Value& event) {
  for (const Renamed& one : kRenamed) rename(event, one.served, one.stored);
}

void from_core(json::Value& event) {
  for (const Renamed& one : kRenamed) rename(event, one.stored, one.served);
  // The older form always has them.
  for (const std::string_view name : {"reportingController", "reportingInstance"}) {
    if (text_at(event, name).empty()) event.as_object().erase(name);
  }
}

void default_core_event(json::Value& event) {
  set_default(event.as_object(), "reportingComponent", "");
  set_default(event.as_object(), "reportingInstance", "");
}

std::string core_field(std::string_view field) {
  if (const auto rest = base::strip_prefix(field, "regarding.")) return "involvedObject." + std::string(*rest);
  return field == "reportingController" ? "reportingComponent" : std::string(field);
}

constexpr Conversion kEventConversion{to_core, from_core, core_field};

void check_word(const json::Value& event, std::string_view name, std::string_view shown_as, Causes& causes) {
  const std::string_view text = text_at(event, name);
  if (text.empty()) causes.push_back(required(std::string(shown_as)));
  if (text.size() > kWordBytesMax) {
    causes.push_back(invalid_value(std::string(shown_as), base::quote(base::ellipsize(text, kWordBytesMax)),
                                   "can have at most 128 characters"));
  }
}

// What holds for every event; those with a time of their own say more about who reports them.
void check_event(const json::Value& event, std::string_view controller_name, Causes& causes) {
  const std::string_view ns = metadata_text(event, "namespace");
  const std::string_view involved = event.string_at({"involvedObject", "namespace"});
  // Events about what has no namespace live in the default one.
  const bool fits = involved.empty() ? ns == "default" || ns == "kube-system" : involved == ns;
  if (!fits) {
    causes.push_back(
        invalid_value("involvedObject.namespace", base::quote(involved), "does not match event.namespace"));
  }
  if (text_at(event, "eventTime").empty()) return;
  const std::string_view controller = text_at(event, "reportingComponent");
  if (controller.empty()) {
    causes.push_back(required(std::string(controller_name)));
  } else {
    check_qualified_name(controller, FieldPath(controller_name), causes);
  }
  check_word(event, "reportingInstance", "reportingInstance", causes);
  check_word(event, "action", "action", causes);
  check_word(event, "reason", "reason", causes);
  if (text_at(event, "message").size() > kMessageBytesMax) {
    causes.push_back(invalid_value("message", base::quote(""), "can have at most 1024 characters"));
  }
}

void validate_core_event(const json::Value& event, Causes& causes) { check_event(event, "reportingComponent", causes); }

// In the stored form.
void check_new_event(const json::Value& event, Causes& causes) {
  check_event(event, "reportingController", causes);
  if (text_at(event, "eventTime").empty()) causes.push_back(required("eventTime"));
  const std::string_view type = text_at(event, "type");
  if (type != "Normal" && type != "Warning") {
    causes.push_back(invalid_value("type", base::quote(""), "has invalid value: " + std::string(type)));
  }
  if (const json::Value* series = member(event, "series")) {
    if (int_at(*series, "count").value_or(0) < 2) {
      causes.push_back(invalid_value("series.count", base::quote(""), "should be at least 2"));
    }
    if (text_at(*series, "lastObservedTime").empty()) causes.push_back(required("series.lastObservedTime"));
  }
  for (const std::string_view name : {"firstTimestamp", "lastTimestamp"}) {
    if (!text_at(event, name).empty()) {
      causes.push_back(invalid_value(std::string(name), base::quote(""), "needs to be unset"));
    }
  }
  if (int_at(event, "count").value_or(0) != 0) {
    causes.push_back(invalid_value("count", base::quote(""), "needs to be unset"));
  }
}

std::string source_cell(const json::Value& event) {
  std::string_view component = event.string_at({"source", "component"});
  std::string_view instance = event.string_at({"source", "host"});
  if (component.empty()) component = text_at(event, "reportingComponent");
  if (instance.empty()) instance = text_at(event, "reportingInstance");
  std::string text(component);
  if (!instance.empty()) text.append(", ").append(instance);
  return text;
}

json::Array event_cells(const json::Value& event, api::Time now) {
  std::string_view first = text_at(event, "firstTimestamp");
  if (first.empty()) first = text_at(event, "eventTime");
  std::string_view last = text_at(event, "lastTimestamp");
  std::int64_t count = int_at(event, "count").value_or(0);
  if (last.empty()) last = first;
  if (const json::Value* series = member(event, "series")) {
    last = text_at(*series, "lastObservedTime");
    count = int_at(*series, "count").value_or(0);
  } else if (count == 0) {
    count = 1;
  }
  std::string object = base::to_lower_ascii(event.string_at({"involvedObject", "kind"}));
  if (const std::string_view name = event.string_at({"involvedObject", "name"}); !name.empty()) {
    object.append("/").append(name);
  }
  return {age_cell(last, now),
          text_at(event, "type"),
          text_at(event, "reason"),
          object,
          event.string_at({"involvedObject", "fieldPath"}),
          source_cell(event),
          base::trim(text_at(event, "message")),
          age_cell(first, now),
          count,
          metadata_text(event, "name")};
}

const std::vector<KindRules::Selectable>& core_selectable() {
  static const std::vector<KindRules::Selectable> kFields = {{"involvedObject.kind"},
                                                             {"involvedObject.namespace"},
                                                             {"involvedObject.name"},
                                                             {"involvedObject.uid"},
                                                             {"involvedObject.apiVersion"},
                                                             {"involvedObject.resourceVersion"},
                                                             {"involvedObject.fieldPath"},
                                                             {"reason"},
                                                             {"reportingComponent"},
                                                             {"source"},
                                                             {"type"}};
  return kFields;
}

std::shared_ptr<const Strategy> core_event_strategy() {
  KindRules rules;
  rules.defaults = default_core_event;
  rules.validate = validate_core_event;
  rules.cells = event_cells;
  rules.selectable = core_selectable();
  return make_strategy(std::move(rules));
}

// The rules of the stored form, for objects that are shown in the other one. Objects are indexed in their stored form.
class NewEventStrategy final : public GenericStrategy {
 public:
  NewEventStrategy() : GenericStrategy(false), core_(core_event_strategy()) {}

  void prune(json::Value& object, std::vector<std::string>*) const override { drop_empty(object); }

  void validate_create(const json::Value& object, Causes& causes) const override {
    json::Value stored = object;
    to_core(stored);
    check_new_event(stored, causes);
  }

  void validate_update(const json::Value& object, const json::Value& old, WritePart, Causes& causes) const override {
    json::Value stored = object;
    json::Value before = old;
    to_core(stored);
    to_core(before);
    // What was written in the older form stays writable.
    if (!text_at(before, "eventTime").empty()) check_new_event(stored, causes);
    for (const std::string_view name : {"involvedObject", "reason", "message", "reportingComponent",
                                        "reportingInstance", "action", "related", "type", "eventTime"}) {
      check_immutable(stored, before, {name}, causes);
    }
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> selectable_fields(
      const json::Value& object) const override {
    return core_->selectable_fields(object);
  }

  [[nodiscard]] bool is_selectable(std::string_view field) const override {
    const bool is_new =
        field.starts_with("regarding.") || field == "reportingController" || field == "reason" || field == "type";
    return is_new && core_->is_selectable(core_field(field));
  }

  [[nodiscard]] json::Array table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                        api::Time now) const override {
    json::Value stored = object;
    to_core(stored);
    return core_->table_cells(stored, columns, now);
  }

 private:
  std::shared_ptr<const Strategy> core_;
};

std::vector<PrinterColumn> event_columns() {
  PrinterColumn name = name_column();
  name.priority = 1;
  return {column("Last Seen", "string", "When it last happened."),
          column("Type", "string", "Normal or Warning."),
          column("Reason", "string", "What happened, in a word."),
          column("Object", "string", "What it happened to."),
          column("Subobject", "string", "Which part of it.", 1),
          column("Source", "string", "Who reports it.", 1),
          column("Message", "string", "What happened, for people."),
          column("First Seen", "string", "When it first happened.", 1),
          column("Count", "string", "How often.", 1),
          name};
}

}  // namespace

TypeList event_types() {
  ResourceType core = basic_type("", "v1", "events", "Event", true);
  core.short_names = {"ev"};
  core.create_on_update = true;
  core.strategy = core_event_strategy();
  core.columns = event_columns();
  ResourceType newer = basic_type("events.k8s.io", "v1", "events", "Event", true);
  newer.short_names = {"ev"};
  newer.create_on_update = true;
  newer.storage_group = "";
  newer.conversion = &kEventConversion;
  newer.strategy = std::make_shared<NewEventStrategy>();
  newer.columns = event_columns();
  return {std::make_shared<const ResourceType>(std::move(core)),
          std::make_shared<const ResourceType>(std::move(newer))};
}

}  // namespace basalt::apiserver
