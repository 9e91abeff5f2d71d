#include <gtest/gtest.h>

#include <filesystem>

#include "node/cgroup_linux.h"
#include "node/pod_volumes.h"
#include "node/testing/local_cluster.h"
#include "rt/real_runtime.h"

namespace basalt::node {
namespace {

// A hierarchy as the kernel shows it: /a hands memory on, /a/b (ours) does not.
class Cgroups : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_.path() + "/a/b");
    write("/cgroup.subtree_control", "cpu memory\n");
    write("/a/cgroup.subtree_control", "cpu memory pids\n");
    write("/a/b/cgroup.subtree_control", "\n");
  }
  void write(const std::string& path, std::string_view text) {
    ASSERT_TRUE(write_file(folder_.path() + path, text, 0644).ok());
  }
  std::string read(const std::string& path) { return read_file(path).value_or("none"); }
  const testing::TemporaryFolder folder_;
};

TEST_F(Cgroups, LieInTheNearestGroupThatHandsMemoryOn) {
  std::filesystem::create_directories(folder_.path() + "/a/basalt-stale/c1");
  const auto tree = CgroupTree::open_at(folder_.path(), "/a/b", "7");
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->folder(), folder_.path() + "/a/basalt-7");
  EXPECT_EQ(read(tree->folder() + "/cgroup.subtree_control"), "+memory +cpu");
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/a/basalt-stale"));
  const auto group = tree->make("c1", {.memory_bytes_max = 1 << 20, .cpu_milli_max = 1500});
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(read(*group + "/memory.max"), "1048576");
  EXPECT_EQ(read(*group + "/cpu.max"), "150000 100000");
  EXPECT_FALSE(CgroupTree::was_out_of_memory(*group));
  ASSERT_TRUE(write_file(*group + "/memory.events", "low 0\noom 1\noom_kill 1\n", 0644).ok());
  EXPECT_TRUE(CgroupTree::was_out_of_memory(*group));
}

TEST_F(Cgroups, WithoutTheMemoryControllerThereAreNone) {
  write("/cgroup.subtree_control", "cpu\n");
  write("/a/cgroup.subtree_control", "cpu pids\n");
  EXPECT_EQ(CgroupTree::open_at(folder_.path(), "/a/b", "7"), nullptr);
  EXPECT_EQ(CgroupTree::open_at(folder_.path() + "/nowhere", "/", "7"), nullptr);
}

// On machines that permit groups this runs in one, on others without limits: the pod runs either way.
TEST(CgroupsHere, ALimitedProcessRuns) {
  const auto runtime = rt::make_real_runtime();
  auto runner = make_linux_process_runner(*runtime, Logger(), Isolation::Never);
  ASSERT_TRUE(runner.ok());
  rt::Mutex mutex;
  rt::Condition ended(*runtime);
  std::optional<ProcessExit> exit;
  const auto started = (*runner)->start({.name = "small",
                                         .argv = {"sh", "-c", "exit 3"},
                                         .env = {{"PATH", "/usr/bin:/bin"}},
                                         .limits = {.memory_bytes_max = 256u << 20, .cpu_milli_max = 1000}},
                                        {}, [&](const ProcessExit& how) {
                                          rt::MutexLock lock(mutex);
                                          exit = how;
                                          ended.notify_all();
                                        });
  ASSERT_TRUE(started.ok());
  {
    rt::MutexLock lock(mutex);
    while (!exit) ended.wait(mutex);
    EXPECT_EQ(exit->code, 3);
    EXPECT_FALSE(exit->out_of_memory);
  }
  (*runner)->stop();
}

}  // namespace
}  // namespace basalt::node
