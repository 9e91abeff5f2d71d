#include "apiserver/http/audit_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/random_name.h"
#include "json/value.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() : runtime_(rt::make_real_runtime()) {
    std::string name = (std::filesystem::temp_directory_path() / "basalt-audit-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    options_.path = folder_ + "/audit.log";
  }
  ~AuditLogTest() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::unique_ptr<rt::Runtime> runtime_;
  std::string folder_;
  AuditLog::Options options_;
};

TEST_F(AuditLogTest, LinesAreAppendedAndTheFileIsItsOwners) {
  for (int round = 0; round < 2; ++round) {
    auto log = AuditLog::open(*runtime_, Logger(), options_);
    ASSERT_TRUE(log.ok());
    (*log)->write("{}");
  }  // the end writes what waits
  EXPECT_EQ(lines_of(options_.path), (std::vector<std::string>{"{}", "{}"}));
  struct stat state{};
  ASSERT_EQ(::stat(options_.path.c_str(), &state), 0);
  EXPECT_EQ(state.st_mode & 0777, 0600u);
}

TEST_F(AuditLogTest, AFileThatIsFullMakesRoom) {
  options_.file_bytes_max = 100;
  for (int i = 0; i < 4; ++i) {
    auto log = AuditLog::open(*runtime_, Logger(), options_);
    ASSERT_TRUE(log.ok());
    (*log)->write(std::string(60, static_cast<char>('a' + i)));
  }
  EXPECT_EQ(lines_of(options_.path), std::vector<std::string>{std::string(60, 'd')});
  EXPECT_EQ(lines_of(options_.path + ".1"), std::vector<std::string>{std::string(60, 'c')});
}

TEST_F(AuditLogTest, AFullFileThatCannotBeRenamedGrowsNoFurther) {
  options_.file_bytes_max = 100;
  std::filesystem::create_directory(options_.path + ".1");
  auto log = AuditLog::open(*runtime_, Logger(), options_);
  ASSERT_TRUE(log.ok());
  (*log)->write(std::string(90, 'a'));
  while (lines_of(options_.path).empty())
    ASSERT_FALSE(rt::StopToken().wait_for(*runtime_, std::chrono::milliseconds(1)));
  (*log)->write(std::string(90, 'b'));
  while ((*log)->lost() < 1) ASSERT_FALSE(rt::StopToken().wait_for(*runtime_, std::chrono::milliseconds(1)));
  EXPECT_EQ(lines_of(options_.path), std::vector<std::string>{std::string(90, 'a')});
}

TEST_F(AuditLogTest, WhatTheDiskDoesNotTakeIsCounted) {
  options_.path = "/dev/full";
  auto log = AuditLog::open(*runtime_, Logger(), options_);
  ASSERT_TRUE(log.ok());
  (*log)->write("one");
  (*log)->write("two");
  while ((*log)->lost() < 2) ASSERT_FALSE(rt::StopToken().wait_for(*runtime_, std::chrono::milliseconds(1)));
}

TEST_F(AuditLogTest, WhatWaitsIsBounded) {
  options_.waiting_bytes_max = 10;
  auto log = AuditLog::open(*runtime_, Logger(), options_);
  ASSERT_TRUE(log.ok());
  (*log)->write(std::string(11, 'x'));
  EXPECT_EQ((*log)->lost(), 1u);
}

TEST_F(AuditLogTest, AFileThatCannotBeMadeIsAnError) {
  options_.path = folder_ + "/none/audit.log";
  EXPECT_FALSE(AuditLog::open(*runtime_, Logger(), options_).ok());
}

TEST_F(AuditLogTest, ALineIsAnEventOfKubernetes) {
  AuditRecord record;
  record.id = base::random_uuid([this] { return runtime_->random(); });
  record.uri = "/api/v1/namespaces/a/pods/p/status?dryRun=All";
  record.verb = "update";
  record.user = UserInfo{"ann", "", {"devs"}};
  record.path = parse_api_path("/api/v1/namespaces/a/pods/p/status");
  record.is_allowed = true;
  record.annotations = std::make_shared<AuditAnnotations>();
  (*record.annotations)["policy.example.com/why"] = "because";
  const auto event = json::Value::parse(audit_line(record, AuditStage::Complete, 409, runtime_->wall_now()));
  ASSERT_TRUE(event.ok());
  EXPECT_EQ(event->string_at({"apiVersion"}), "audit.k8s.io/v1");
  EXPECT_EQ(event->string_at({"stage"}), "ResponseComplete");
  EXPECT_EQ(event->string_at({"auditID"}).size(), 36u);
  EXPECT_EQ(event->string_at({"user", "username"}), "ann");
  EXPECT_EQ(event->string_at({"objectRef", "name"}), "p");
  EXPECT_EQ(event->string_at({"objectRef", "subresource"}), "status");
  EXPECT_EQ(event->find_path({"responseStatus", "code"})->as_int(), 409);
  EXPECT_EQ(event->string_at({"annotations", "authorization.k8s.io/decision"}), "allow");
  EXPECT_EQ(event->string_at({"annotations", "policy.example.com/why"}), "because");
}

}  // namespace
}  // namespace basalt::apiserver
