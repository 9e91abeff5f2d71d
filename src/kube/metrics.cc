#include "kube/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/check.h"
#include "rt/mutex.h"

namespace basalt::kube {

struct Metrics::State {
  rt::Mutex mutex;
  prometheus::Registry registry;
  std::map<std::string, prometheus::Family<prometheus::Counter>*, std::less<>> counters BASALT_GUARDED_BY(mutex);
  std::map<std::string, prometheus::Family<prometheus::Gauge>*, std::less<>> gauges BASALT_GUARDED_BY(mutex);
  std::map<std::string, prometheus::Family<prometheus::Histogram>*, std::less<>> histograms BASALT_GUARDED_BY(mutex);

  // How many kinds know this name; one name is one kind.
  [[nodiscard]] bool is_taken_by_other(std::string_view name, const void* own) BASALT_REQUIRES(mutex) {
    const bool counter = own != &counters && counters.find(name) != counters.end();
    const bool gauge = own != &gauges && gauges.find(name) != gauges.end();
    const bool histogram = own != &histograms && histograms.find(name) != histograms.end();
    return BASALT_BUG(counter || gauge || histogram);
  }
};

namespace {

// The library throws for names and labels that Prometheus does not allow: a mistake in our code.
template <class Function>
auto guarded(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception&) {
    (void)BASALT_BUG(true);
    return nullptr;
  }
}

std::map<std::string, std::string> to_map(const MetricLabels& labels) { return {labels.begin(), labels.end()}; }

}  // namespace

void Counter::add(double amount) const {
  if (series_ != nullptr && amount > 0) series_->Increment(amount);
}
double Counter::value() const { return series_ == nullptr ? 0 : series_->Value(); }

void Gauge::set(double value) const {
  if (series_ != nullptr) series_->Set(value);
}
void Gauge::add(double amount) const {
  if (series_ != nullptr) series_->Increment(amount);
}
double Gauge::value() const { return series_ == nullptr ? 0 : series_->Value(); }

void Histogram::observe(double value) const {
  if (series_ != nullptr) series_->Observe(value);
}

Metrics::Metrics() : state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

Counter Metrics::counter(std::string_view name, std::string_view help, const MetricLabels& labels) {
  State& state = *state_;
  const rt::MutexLock lock(state.mutex);
  if (state.is_taken_by_other(name, &state.counters)) return {};
  auto found = state.counters.find(name);
  if (found == state.counters.end()) {
    auto* family = guarded([&] {
      return &prometheus::BuildCounter().Name(std::string(name)).Help(std::string(help)).Register(state.registry);
    });
    if (family == nullptr) return {};
    found = state.counters.emplace(std::string(name), family).first;
  }
  return Counter(guarded([&] { return &found->second->Add(to_map(labels)); }));
}

Gauge Metrics::gauge(std::string_view name, std::string_view help, const MetricLabels& labels) {
  State& state = *state_;
  const rt::MutexLock lock(state.mutex);
  if (state.is_taken_by_other(name, &state.gauges)) return {};
  auto found = state.gauges.find(name);
  if (found == state.gauges.end()) {
    auto* family = guarded([&] {
      return &prometheus::BuildGauge().Name(std::string(name)).Help(std::string(help)).Register(state.registry);
    });
    if (family == nullptr) return {};
    found = state.gauges.emplace(std::string(name), family).first;
  }
  return Gauge(guarded([&] { return &found->second->Add(to_map(labels)); }));
}

Histogram Metrics::histogram(std::string_view name, std::string_view help, const std::vector<double>& bounds,
                             const MetricLabels& labels) {
  BASALT_CHECK(std::is_sorted(bounds.begin(), bounds.end()));
  State& state = *state_;
  const rt::MutexLock lock(state.mutex);
  if (state.is_taken_by_other(name, &state.histograms)) return {};
  auto found = state.histograms.find(name);
  if (found == state.histograms.end()) {
    auto* family = guarded([&] {
      return &prometheus::BuildHistogram().Name(std::string(name)).Help(std::string(help)).Register(state.registry);
    });
    if (family == nullptr) return {};
    found = state.histograms.emplace(std::string(name), family).first;
  }
  return Histogram(guarded([&] { return &found->second->Add(to_map(labels), bounds); }));
}

void Metrics::remove_counter(std::string_view name, const MetricLabels& labels) {
  const rt::MutexLock lock(state_->mutex);
  const auto found = state_->counters.find(name);
  if (found == state_->counters.end() || !found->second->Has(to_map(labels))) return;
  found->second->Remove(&found->second->Add(to_map(labels)));
}

void Metrics::remove_gauge(std::string_view name, const MetricLabels& labels) {
  const rt::MutexLock lock(state_->mutex);
  const auto found = state_->gauges.find(name);
  if (found == state_->gauges.end() || !found->second->Has(to_map(labels))) return;
  found->second->Remove(&found->second->Add(to_map(labels)));
}

std::string Metrics::to_text() const {
  const prometheus::TextSerializer serializer;
  std::ostringstream out;
  serializer.Serialize(out, state_->registry.Collect());
  return out.str();
}

const std::vector<double>& Metrics::seconds_bounds() {
  static const std::vector<double> bounds = {0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                             0.5,   1,     2.5,   5,    10,    30,   60};
  return bounds;
}

}  // namespace basalt::kube
