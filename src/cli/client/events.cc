#include "cli/client/events.h"

#include <string>

#include "cli/client/objects.h"
#include "cli/client/table.h"
#include "json/value.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kEventsShown = 20;

}  // namespace

void print_events_of(Session& session, std::string_view kind, std::string_view ns, std::string_view name,
                     std::string_view uid) {
  const auto events = list_bytes(
      session, {"", "v1", "events"},
      {.ns = std::string(ns),
       .field_selector = "involvedObject.kind=" + std::string(kind) + ",involvedObject.name=" + std::string(name)});
  if (!events.ok()) return;
  Table table({"TYPE", "REASON", "COUNT", "MESSAGE"});
  const std::size_t first = events->size() > kEventsShown ? events->size() - kEventsShown : 0;
  for (std::size_t i = first; i < events->size(); ++i) {
    const auto event = json::Value::parse(*(*events)[i]);
    if (!event.ok() || event->string_at({"involvedObject", "uid"}) != uid) continue;
    const json::Value* count = event->find("count");
    table.row({std::string(event->string_at({"type"})), std::string(event->string_at({"reason"})),
               count != nullptr && count->is_int() ? std::to_string(count->as_int()) : "1",
               std::string(event->string_at({"message"}))});
  }
  if (table.empty()) return;
  session.out << "Events:\n";
  table.print(session.out, session.host.terminal(), "  ");
}

}  // namespace basalt::cli
