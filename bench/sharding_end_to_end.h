#pragma once

#include <string>

namespace basalt::controllers::sharding {

// Prints "what: value unit (bar: at most 5 us)" and remembers a miss.
void show(const std::string& what, double value, const std::string& unit, double bar, bool at_most = true);
// How many bars were missed so far.
[[nodiscard]] int missed();

// From the start of the controller, and from a change of its configuration, to the stored NodeShards.
void measure_embedded();
void measure_real_server();
// 10,000 nodes with 300,000 pods on the embedded server.
void measure_cold_start();

}  // namespace basalt::controllers::sharding
