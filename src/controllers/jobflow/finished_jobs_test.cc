#include "controllers/jobflow/finished_jobs.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace basalt::controllers::jobflow {
namespace {

const api::ObjectKey kFlow{"default", "f"};

JobPtr job(const std::string& name, const std::string& uid) {
  auto made = std::make_shared<api::batch::Job>();
  made->metadata.name = name;
  made->metadata.uid = uid;
  return made;
}

TEST(FinishedJobs, ACacheWithoutAJobWhoseEndNobodyWasToldOfIsAhead) {
  FinishedJobs jobs;
  jobs.note_alive(kFlow, "flow", "1");
  jobs.note_alive(kFlow, "flow", "2");
  EXPECT_FALSE(jobs.misses(kFlow, "flow", {job("f-a", "1"), job("f-b", "2")}));
  EXPECT_TRUE(jobs.misses(kFlow, "flow", {job("f-a", "1")}));
  jobs.keep(kFlow, job("f-b", "2"));
  EXPECT_FALSE(jobs.misses(kFlow, "flow", {job("f-a", "1")}));
  EXPECT_TRUE(jobs.of(kFlow).contains("f-b"));
  jobs.note_gone("1");
  EXPECT_FALSE(jobs.misses(kFlow, "flow", {}));
  EXPECT_FALSE(jobs.of(kFlow).contains("f-a"));
}

TEST(FinishedJobs, JobsOfAnotherFlowOfTheNameAreNotMissed) {
  FinishedJobs jobs;
  jobs.note_alive(kFlow, "old", "1");
  EXPECT_FALSE(jobs.misses(kFlow, "new", {}));
  EXPECT_TRUE(jobs.misses(kFlow, "old", {}));
  // It is given to another flow.
  jobs.note_alive({"default", "g"}, "other", "1");
  EXPECT_FALSE(jobs.misses(kFlow, "old", {}));
  EXPECT_TRUE(jobs.misses({"default", "g"}, "other", {}));
  jobs.note_gone("1");
  jobs.note_gone("1");
  EXPECT_FALSE(jobs.misses({"default", "g"}, "other", {}));
}

}  // namespace
}  // namespace basalt::controllers::jobflow
