#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace basalt::kube {

// Handles to one time series each. Copies are cheap; they are valid as long as the Metrics that made them. Made by
// default they count nothing, so that a component works without metrics. Any thread.
class Counter {
 public:
  Counter() = default;
  void add(double amount = 1) const;  // amount >= 0
  [[nodiscard]] double value() const;

 private:
  friend class Metrics;
  explicit Counter(prometheus::Counter* series) : series_(series) {}
  prometheus::Counter* series_ = nullptr;
};

class Gauge {
 public:
  Gauge() = default;
  void set(double value) const;
  void add(double amount) const;
  [[nodiscard]] double value() const;

 private:
  friend class Metrics;
  explicit Gauge(prometheus::Gauge* series) : series_(series) {}
  prometheus::Gauge* series_ = nullptr;
};

class Histogram {
 public:
  Histogram() = default;
  void observe(double value) const;

 private:
  friend class Metrics;
  explicit Histogram(prometheus::Histogram* series) : series_(series) {}
  prometheus::Histogram* series_ = nullptr;
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// The metrics of one process role, passed through constructors. The same name and labels give the same series. A name
// keeps the kind and help of its first use; a later use as another kind gets a handle that counts nothing (and is a
// bug that is reported). Label values must come from bounded sets, never from a tenant. Any thread.
class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  [[nodiscard]] Counter counter(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  [[nodiscard]] Gauge gauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  // `bounds` are upper bounds in ascending order; kSecondsBounds suits latencies.
  [[nodiscard]] Histogram histogram(std::string_view name, std::string_view help, const std::vector<double>& bounds,
                                    const MetricLabels& labels = {});
  // Takes one series away, because what it is about is gone; nothing if there is none. Its handles may not be used any
  // more: only whoever made them knows that nobody does.
  void remove_counter(std::string_view name, const MetricLabels& labels);
  void remove_gauge(std::string_view name, const MetricLabels& labels);
  // Everything in Prometheus' text format, version 0.0.4.
  [[nodiscard]] std::string to_text() const;

  static const std::vector<double>& seconds_bounds();  // 1 ms to 60 s

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace basalt::kube
