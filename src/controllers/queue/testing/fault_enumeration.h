#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "kube/fault_client.h"
#include "rt/sim_test_support.h"

namespace basalt::controllers::testing {

// A story that is told again and again, each time with one thing going wrong in the process of controllers, at every
// place where it can. `Fixture` has start(), stop(), rest() and `process`, a ControllerProcess.
template <class Fixture>
struct FaultStory {
  std::string name;
  std::function<std::unique_ptr<Fixture>(rt::SimRuntime&)> make;
  std::function<void(Fixture&)> play;   // does not touch the process, which may die meanwhile
  std::function<void(Fixture&)> check;  // what must hold ten seconds later, whatever went wrong
};

// What one telling came to.
struct FaultRun {
  std::uint64_t calls = 0;
  std::uint64_t events = 0;
  bool struck = false;
};

using ArmFault = std::function<void(kube::FaultClient&)>;

template <class Fixture>
FaultRun run_story(const FaultStory<Fixture>& story, const ArmFault& arm, std::uint64_t seed = 1) {
  FaultRun run;
  rt::run_seeds(seed, 1, [&](rt::SimRuntime& runtime) {
    const std::unique_ptr<Fixture> f = story.make(runtime);
    f->start();
    arm(f->process->faults());
    bool over = false;
    const auto restart_if_dead = [&] {
      if (!f->process->faults().crashed()) return;
      run.struck = true;
      f->stop();
      f->start();
    };
    rt::Thread keeper(runtime, "keeper", [&] {
      while (!over) {
        restart_if_dead();
        runtime.sleep_for(std::chrono::milliseconds(100));
      }
    });
    story.play(*f);
    over = true;
    keeper.join();
    restart_if_dead();
    f->rest(std::chrono::seconds(10));
    story.check(*f);
    run.calls = f->process->faults().calls();
    run.events = f->process->faults().events();
    run.struck |= f->process->faults().struck();
  });
  return run;
}

inline void print_points(const std::string& story, const char* what, std::uint64_t points, std::uint64_t places) {
  std::printf("%s: %llu points of %s at %llu places\n", story.c_str(), static_cast<unsigned long long>(points), what,
              static_cast<unsigned long long>(places));
}

// The process dies at each call, before and after it took effect, and is started again.
template <class Fixture>
void crash_at_every_call(const FaultStory<Fixture>& story) {
  using Point = kube::FaultClient::CrashPoint;
  const std::uint64_t calls = run_story(story, [](kube::FaultClient&) {}).calls;
  std::uint64_t points = 0;
  for (std::uint64_t call = 1; call <= calls; call += rt::stride_of()) {
    for (const Point point : {Point::BeforeEffect, Point::AfterEffect}) {
      if (run_story(story, [&](kube::FaultClient& faults) { faults.crash_after(call, point); }).struck) ++points;
      if (::testing::Test::HasFailure()) FAIL() << story.name << ": crash at call " << call;
    }
  }
  EXPECT_GE(points, calls / rt::stride_of());
  print_points(story.name, "crashes", points, calls);
}

// Each call fails once: 409 (of updates and patches), 429, 500, and a reply that is lost after the effect.
template <class Fixture>
void fail_every_call(const FaultStory<Fixture>& story) {
  using Point = kube::FaultClient::CrashPoint;
  Error too_many = Error::make(Reason::TooManyRequests, "too many requests (injected)");
  too_many.retry_after = std::chrono::seconds(1);
  const std::pair<Error, Point> failures[] = {
      {Error::make(Reason::Conflict, "the object has been modified (injected)"), Point::BeforeEffect},
      {too_many, Point::BeforeEffect},
      {Error::make(Reason::InternalError, "internal error (injected)"), Point::BeforeEffect},
      {Error::make(Reason::ConnectionLost, "the reply was lost (injected)"), Point::AfterEffect}};
  const std::uint64_t calls = run_story(story, [](kube::FaultClient&) {}).calls;
  std::uint64_t points = 0;
  for (std::uint64_t call = 1; call <= calls; call += rt::stride_of()) {
    for (const auto& [error, point] : failures) {
      if (run_story(story, [&](kube::FaultClient& faults) { faults.fail_call(call, error, point); }).struck) ++points;
      if (::testing::Test::HasFailure()) FAIL() << story.name << ": " << error.message << " at call " << call;
    }
  }
  EXPECT_GE(points, calls / rt::stride_of());
  print_points(story.name, "failures", points, calls);
}

// Each watch event is lost with its stream, lost with a stream that has expired, comes twice, or comes late.
template <class Fixture>
void strike_every_event(const FaultStory<Fixture>& story) {
  using Fault = kube::FaultClient::EventFault;
  const std::uint64_t events = run_story(story, [](kube::FaultClient&) {}).events;
  std::uint64_t points = 0;
  for (std::uint64_t event = 1; event <= events; event += rt::stride_of()) {
    for (const Fault fault : {Fault::Broken, Fault::Expired, Fault::Repeated, Fault::Late}) {
      if (run_story(story, [&](kube::FaultClient& faults) { faults.strike_event(event, fault); }).struck) ++points;
      if (::testing::Test::HasFailure())
        FAIL() << story.name << ": fault " << static_cast<int>(fault) << " at event " << event;
    }
  }
  EXPECT_GE(points, events / rt::stride_of());
  print_points(story.name, "lost, repeated and late events", points, events);
}

// Everything goes wrong now and then, for as long as the story lasts.
template <class Fixture>
void play_under_random_faults(const FaultStory<Fixture>& story, std::uint64_t seeds) {
  using std::chrono::milliseconds;
  FaultStory<Fixture> disturbed = story;
  disturbed.play = [&story](Fixture& f) {
    story.play(f);
    f.process->faults().set_plan({});
  };
  for (std::uint64_t seed = 1; seed <= seeds; seed += rt::stride_of()) {
    run_story(
        disturbed,
        [](kube::FaultClient& faults) {
          faults.set_plan({.conflict = 0.2,
                           .too_many = 0.1,
                           .internal_error = 0.1,
                           .unavailable = 0.1,
                           .unreachable = 0.05,
                           .lost_reply = 0.1,
                           .timed_out = 0.05,
                           .delay_max = milliseconds(50),
                           .watch_refused = 0.05,
                           .watch_expired = 0.05,
                           .watch_broken = 0.1,
                           .event_repeated = 0.1,
                           .event_delay_max = milliseconds(200),
                           .stale_lists_max = 3});
        },
        seed);
    if (::testing::Test::HasFailure()) FAIL() << story.name << ": seed " << seed;
  }
}

}  // namespace basalt::controllers::testing
