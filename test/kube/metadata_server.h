#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace basalt::test {

// test/data/amoro.py as a process: a metadata service that fails in every way. It ends when its standard input closes.
class MetadataServer {
 public:
  MetadataServer() {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    EXPECT_EQ(::pipe2(in.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string python = "python3";
    std::string script = BASALT_SOURCE_DIR "/test/data/amoro.py";
    std::array<char*, 3> argv = {python.data(), script.data(), nullptr};
    EXPECT_EQ(::posix_spawnp(&process_, "python3", &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    url_ = ask("");
  }
  ~MetadataServer() {
    ::close(to_);
    ::close(from_);
    if (process_ > 0) ::waitpid(process_, nullptr, 0);
  }
  MetadataServer(const MetadataServer&) = delete;
  MetadataServer& operator=(const MetadataServer&) = delete;

  [[nodiscard]] const std::string& url() const { return url_; }
  // What it has seen: "calls NAME" -> how often a table was asked for; "limited" -> the milliseconds that a call waited
  // which it had asked to.
  [[nodiscard]] int number(const std::string& question) {
    const std::string answer = ask(question + "\n");
    EXPECT_NE(answer, "") << question;
    return answer.empty() ? -1 : std::stoi(answer);
  }

 private:
  std::string ask(const std::string& question) {
    if (!question.empty()) {
      EXPECT_EQ(::write(to_, question.data(), question.size()), static_cast<ssize_t>(question.size()));
    }
    std::string line;
    for (char letter = 0; ::read(from_, &letter, 1) == 1 && letter != '\n';) line += letter;
    return line;
  }

  pid_t process_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string url_;
};

}  // namespace basalt::test
