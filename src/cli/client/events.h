#pragma once

#include <string_view>

#include "cli/client/command.h"

namespace basalt::cli {

// The last events of one object, as a table under "Events:"; nothing if there are none or they cannot be read, as they
// only add to what a command says.
void print_events_of(Session& session, std::string_view kind, std::string_view ns, std::string_view name,
                     std::string_view uid);

}  // namespace basalt::cli
