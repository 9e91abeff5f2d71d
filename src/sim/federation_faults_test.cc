#include <algorithm>
#include <cstdio>

#include "sim/federation_test_support.h"

// The stand-in for Karmada dies at every one of its calls, to the host or to a member, and another process takes over.
// Whatever was under way, the end is the same: each job was made once in each cluster where it belonged, it is nowhere
// else, and nothing is left behind once its hyper job is gone.
namespace basalt::federation {
namespace {

using namespace std::chrono_literals;
using controllers::hyperjob::Bench;
using Names = std::vector<std::string>;

constexpr std::uint64_t kNever = 0;

// One process with clients to several APIs: it has one life, so its calls are counted together.
class Mortal {
 public:
  using Point = kube::FaultClient::CrashPoint;
  void live(std::uint64_t until, Point point) {
    calls = 0;
    writes.clear();
    is_dead = false;
    until_ = until;
    point_ = point;
  }
  // False if the process is dead or dies now; a call that is under way then may still take effect.
  bool begin_call(bool is_write, std::uint64_t& number) {
    rt::MutexLock lock(mutex_);
    if (is_dead) return false;
    number = ++calls;
    if (is_write) writes.push_back(number);
    if (number == until_ && point_ == Point::BeforeEffect) is_dead = true;
    return !is_dead;
  }
  bool end_call(std::uint64_t number) {
    rt::MutexLock lock(mutex_);
    if (number == until_) is_dead = true;
    return !is_dead;
  }
  void count_made(const std::string& job) {
    rt::MutexLock lock(mutex_);
    ++made[job];
  }

  // Read and reset by the test while no call is under way.
  std::uint64_t calls = 0;
  std::vector<std::uint64_t> writes;  // which of them
  bool is_dead = false;
  std::map<std::string, int> made;  // "cluster/job": how often it was created there

 private:
  rt::Mutex mutex_;
  std::uint64_t until_ = kNever;
  Point point_ = Point::AfterEffect;
};

class MortalClient final : public kube::Client {
 public:
  MortalClient(Mortal& process, std::string cluster, kube::Client& inner)
      : process_(process), cluster_(std::move(cluster)), inner_(inner) {}

  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    return mortal(request.verb != kube::Verb::Get, [&] {
      auto result = inner_.call(request, stop);
      const bool makes_job = request.verb == kube::Verb::Create && request.resource.plural == "jobs";
      if (makes_job && result.ok() && !cluster_.empty()) {
        process_.count_made(cluster_ + "/" +
                            std::string(json::Value::parse(request.body).value().string_at({"metadata", "name"})));
      }
      return result;
    });
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    return mortal(false, [&] { return inner_.list(request, stop); });
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    return mortal(false, [&] { return inner_.watch(request, stop); });
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& /*options*/,
                                               const rt::StopToken& stop) override {
    std::vector<Result<kube::Response>> results;
    results.reserve(requests.size());
    for (const kube::Request& request : requests) results.push_back(call(request, stop));
    return results;
  }

 private:
  template <class Function>
  auto mortal(bool is_write, Function function) -> decltype(function()) {
    std::uint64_t number = 0;
    if (!process_.begin_call(is_write, number)) return Error::make(Reason::Cancelled, "the process is dead");
    auto result = function();
    if (!process_.end_call(number)) return Error::make(Reason::Cancelled, "the process is dead");
    return result;
  }

  Mortal& process_;
  const std::string cluster_;
  kube::Client& inner_;
};

struct Workload {
  const char* name;
  std::string entry;
  std::string moved_to;  // once it runs; "": it stays
  bool is_deleted_while_running = false;
};

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {.name = "completes", .entry = "a:2", .moved_to = ""},
      {.name = "moves", .entry = "a:1:c1", .moved_to = "a:1:c2"},
      {.name = "is deleted", .entry = "a:2", .moved_to = "", .is_deleted_while_running = true},
  };
  return all;
}

struct Calls {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> writes;  // which of them
};

// One history of a hyper job, with at most one death.
class FaultRun {
 public:
  FaultRun(rt::Runtime& runtime, const Workload& workload) : world_(runtime, 2), workload_(workload) {
    world_.fate_of_all.run_for = workload.is_deleted_while_running ? rt::Duration::max() : rt::Duration(3s);
    world_.wrap = [this](const std::string& name, kube::Client& inner) {
      return clients_.emplace_back(std::make_unique<MortalClient>(process_, name, inner)).get();
    };
  }
  ~FaultRun() { world_.stop_federation(); }
  FaultRun(const FaultRun&) = delete;
  FaultRun& operator=(const FaultRun&) = delete;

  // The process dies at its call number `until`.
  Calls go(std::uint64_t until, Mortal::Point point) {
    start(until, point);
    Bench& bench = world_.bench;
    bench.cluster.apply(Bench::yaml("h", {workload_.entry}));
    if (!workload_.moved_to.empty() || workload_.is_deleted_while_running) {
      EXPECT_TRUE(reach([&] { return bench.phase_of("a", "h-a-0") == "Running"; })) << "never ran";
    }
    if (!workload_.moved_to.empty()) {
      bench.cluster.apply(Bench::yaml("h", {workload_.moved_to}));
      EXPECT_TRUE(reach([&] { return world_.where("h-a-0") == Names{"c2"}; })) << "never moved";
    }
    if (!workload_.is_deleted_while_running) {
      EXPECT_TRUE(reach([&] { return bench.condition("Completed").has_value(); })) << "never completed";
      expect_each_in_one_place();
    }
    bench.cluster.remove(resources::kHyperJobs, "default", "h");
    EXPECT_TRUE(reach([&] { return is_clean(); })) << "something was left behind";
    EXPECT_FALSE(has_overlapped_) << "a job was in two clusters at once";
    expect_made_once();
    return {process_.calls, process_.writes};
  }

 private:
  void start(std::uint64_t until, Mortal::Point point) {
    world_.stop_federation();
    process_.live(until, point);
    world_.start_federation();
  }
  template <class Condition>
  bool reach(Condition condition) {
    const auto look = [&] {
      has_overlapped_ |= world_.where("h-a-0").size() > 1 || world_.where("h-a-1").size() > 1;
      return process_.is_dead || condition();
    };
    if (!world_.bench.cluster.wait_until(look)) return false;
    if (!process_.is_dead) return true;
    start(kNever, Mortal::Point::AfterEffect);
    return world_.bench.cluster.wait_until(look);
  }
  void expect_each_in_one_place() {
    for (const std::string& job : world_.bench.names(resources::kJobs)) EXPECT_EQ(world_.where(job).size(), 1u) << job;
  }
  bool is_clean() {
    for (const char* job : {"h-a-0", "h-a-1"}) {
      if (!world_.where(job).empty()) return false;
    }
    return world_.bench.names(resources::kBindings).empty() && world_.bench.names(resources::kPolicies).empty() &&
           world_.bench.names(resources::kJobs).empty();
  }
  void expect_made_once() {
    std::map<std::string, int> by_job;
    for (const auto& [where, count] : process_.made) {
      EXPECT_EQ(count, 1) << where;
      by_job[where.substr(where.find('/') + 1)] += count;
    }
    for (const auto& [job, count] : by_job) EXPECT_EQ(count, workload_.moved_to.empty() ? 1 : 2) << job;
  }

  Mortal process_;
  std::vector<std::unique_ptr<MortalClient>> clients_;
  World world_;
  const Workload& workload_;
  bool has_overlapped_ = false;
};

Calls simulate(const Workload& workload, std::uint64_t until, Mortal::Point point) {
  Calls calls;
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) { calls = FaultRun(runtime, workload).go(until, point); });
  return calls;
}

class FederationFaults : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Workloads, FederationFaults, ::testing::Range(std::size_t{0}, std::size_t{3}));

TEST_P(FederationFaults, CrashAtEveryCall) {
  const Workload& workload = workloads().at(GetParam());
  const Calls calls = simulate(workload, kNever, Mortal::Point::AfterEffect);
  ASSERT_GT(calls.count, 20u);
  ASSERT_GT(calls.writes.size(), 5u);
  int points = 0;
  for (std::uint64_t call = 1; call <= calls.count; call += rt::stride_of()) {
    const bool is_write = std::binary_search(calls.writes.begin(), calls.writes.end(), call);
    for (const auto point : {Mortal::Point::BeforeEffect, Mortal::Point::AfterEffect}) {
      if (point == Mortal::Point::AfterEffect && !is_write) continue;  // a read has none
      SCOPED_TRACE(std::string("a job that ") + workload.name + ", death at call " + std::to_string(call) +
                   (point == Mortal::Point::BeforeEffect ? " before" : " after") + " its effect");
      simulate(workload, call, point);
      ++points;
      if (HasFailure()) return;
    }
  }
  std::printf("a job that %s: crash points: %d\n", workload.name, points);
}

}  // namespace
}  // namespace basalt::federation
