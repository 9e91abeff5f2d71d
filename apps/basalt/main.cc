#include <algorithm>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_caches.h"
#include "cli/cli.h"

namespace {

// Whether the command serves until it is stopped; others are over before the allocator matters.
bool is_server(const std::vector<std::string>& arguments) {
  constexpr std::string_view kServers[] = {"up", "controllers", "scheduler", "webhooks", "node"};
  const std::string_view program = arguments.empty() ? std::string_view() : arguments.front();
  if (program.ends_with("vc-controller-manager") || program.ends_with("vc-webhook-manager")) return true;
  return arguments.size() > 1 &&
         std::find(std::begin(kServers), std::end(kServers), arguments[1]) != std::end(kServers);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (is_server(arguments)) basalt::base::enlarge_thread_caches(argv);
  return basalt::cli::run(arguments, std::cout, std::cerr);
}
