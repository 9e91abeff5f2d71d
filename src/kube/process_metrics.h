#pragma once

#include <string>

namespace basalt::kube {

// What Prometheus' client libraries say of every process, read from /proc at this moment, in the text format:
// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds,
// process_max_fds, process_threads, process_start_time_seconds. Empty where there is no /proc.
[[nodiscard]] std::string process_metrics_text();

}  // namespace basalt::kube
