#include "cli/up/data_folder.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/roles.h"
#include "cli/up/port_holder.h"

namespace basalt::cli {
namespace {

namespace fs = std::filesystem;

class DataFolder : public ::testing::Test {
 protected:
  DataFolder() {
    std::string path = (fs::temp_directory_path() / "basalt-folder-XXXXXX").string();
    root_ = ::mkdtemp(path.data());
  }
  ~DataFolder() override { fs::remove_all(root_); }
  fs::path root_;
};

TEST_F(DataFolder, IsMadeAndUsedAgain) {
  const std::string folder = root_ / "a/b";
  EXPECT_TRUE(check_data_folder(folder).ok());
  EXPECT_TRUE(fs::is_directory(folder));
  std::ofstream(folder + "/kubeconfig") << "x";
  std::ofstream(folder + "/notes.txt") << "x";
  EXPECT_TRUE(check_data_folder(folder).ok()) << "a cluster's folder may hold more";
}

TEST_F(DataFolder, ForeignFilesAreLeftAlone) {
  std::ofstream(root_ / "thesis.tex") << "x";
  const Done checked = check_data_folder(root_.string());
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().message.find("files that are not a cluster's, such as \"thesis.tex\""), std::string::npos)
      << checked.error().message;
  EXPECT_NE(checked.error().message.find("--data-dir"), std::string::npos);
}

TEST_F(DataFolder, WhatCannotBeMadeIsTold) {
  std::ofstream(root_ / "file") << "x";
  const Done checked = check_data_folder((root_ / "file/sub").string());
  ASSERT_FALSE(checked.ok());
  EXPECT_NE(checked.error().message.find("cannot be made"), std::string::npos) << checked.error().message;
}

TEST_F(DataFolder, ADiskWithRoomIsNoProblem) {
  // Only a machine on which no test can run has less room than this.
  EXPECT_FALSE(disk_problem(root_.string()));
  EXPECT_FALSE(disk_problem((root_ / "nowhere").string()));
}

TEST(PortHolder, NamesTheProcess) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  EXPECT_TRUE(port_holder(port).starts_with("process " + std::to_string(::getpid()) + " ("));
  ::close(listener);
  EXPECT_EQ(port_holder(port), "");
}

TEST(Counts, MayHaveUnits) {
  std::int32_t count = -1;
  for (const auto& [text, expected] : std::vector<std::pair<const char*, std::int32_t>>{
           {"0", 0}, {"12", 12}, {"1k", 1000}, {"5K", 5000}, {"2M", 2'000'000}}) {
    EXPECT_TRUE(take_count(text, count).ok()) << text;
    EXPECT_EQ(count, expected);
  }
  for (const char* text : {"", "k", "-1", "1.5k", "3G", "9999999999", "3000M", "1 k"})
    EXPECT_FALSE(take_count(text, count).ok()) << text;
}

}  // namespace
}  // namespace basalt::cli
