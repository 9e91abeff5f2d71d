#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "test/kube/rest_proxy.h"

namespace basalt::test {

inline std::uint16_t free_port() {
  const TcpProxy taken(std::uint16_t{1});
  return taken.port();
}

// `basalt webhooks` as a process, with certificates of its own making for the Service of deploy/webhooks.yaml. Can be
// ended and started again, with other flags, on the same port.
class AdmissionProcess {
 public:
  AdmissionProcess(std::string program, std::filesystem::path folder, std::string kubeconfig)
      : program_(std::move(program)),
        folder_(std::move(folder)),
        kubeconfig_(std::move(kubeconfig)),
        port_(free_port()),
        health_port_(free_port()) {
    std::filesystem::create_directories(folder_);
  }
  ~AdmissionProcess() { (void)stop(SIGKILL); }
  AdmissionProcess(const AdmissionProcess&) = delete;
  AdmissionProcess& operator=(const AdmissionProcess&) = delete;

  static std::vector<std::string> paths_of_clusters() {
    return {"/jobs/mutate",          "/jobs/validate",
            "/queues/mutate",        "/queues/validate",
            "/podgroups/mutate",     "/podgroups/validate",
            "/pods/mutate",          "/pods/validate",
            "/cronjobs/validate",    "/jobflows/validate",
            "/hypernodes/validate",  "/hyperjobs/validate",
            "/datasources/validate", "/datasourceclaims/validate"};
  }

  void start(const std::vector<std::string>& flags = {}, const std::vector<std::string>& paths = paths_of_clusters()) {
    std::string list;
    for (const std::string& path : paths) list += (list.empty() ? "" : ",") + path;
    std::vector<std::string> texts = {program_,
                                      "webhooks",
                                      "--kubeconfig=" + kubeconfig_,
                                      "--listen-address=127.0.0.1",
                                      "--port=" + std::to_string(port_),
                                      "--enabled-admission=" + list,
                                      "--self-signed",
                                      "--certificate-folder=" + (folder_ / "certificates").string(),
                                      "--webhook-namespace=volcano-system",
                                      "--webhook-service-name=volcano-admission-service",
                                      "--enable-healthz=true",
                                      "--healthz-address=127.0.0.1:" + std::to_string(health_port_),
                                      "--logtostderr",
                                      "-v=4"};
    texts.insert(texts.end(), flags.begin(), flags.end());
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log().c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    EXPECT_EQ(::posix_spawn(&process_, program_.c_str(), &actions, nullptr, argv.data(), environ), 0) << program_;
    posix_spawn_file_actions_destroy(&actions);
  }
  // The exit code; 128 + signal.
  int stop(int signal) {
    if (process_ <= 0) return -1;
    ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  [[nodiscard]] std::filesystem::path log() const { return folder_ / "log"; }
  [[nodiscard]] std::filesystem::path ca_file() const { return folder_ / "certificates/ca.crt"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  // Whether it takes connections.
  [[nodiscard]] bool listens() const {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    const bool listens = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    return listens;
  }

 private:
  std::string program_;
  const std::filesystem::path folder_;
  const std::string kubeconfig_;
  const std::uint16_t port_;
  const std::uint16_t health_port_;
  pid_t process_ = -1;
};

}  // namespace basalt::test
