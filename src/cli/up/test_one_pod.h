#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kube/client.h"
#include "rt/mutex.h"

namespace basalt::cli {

// Knows one pod, "default/p", while there is a text of it. For tests. Thread-safe.
class OnePod final : public kube::Client {
 public:
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken&) override {
    rt::MutexLock lock(mutex_);
    if (text_.empty() || request.name != "p") return Error::make(Reason::NotFound, "pods \"p\" not found");
    return kube::Response{200, std::make_shared<const std::string>(text_), {}};
  }
  Result<kube::ListPage> list(const kube::ListRequest&, const rt::StopToken&) override { return kube::ListPage(); }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest&, const rt::StopToken&) override {
    return Error::make(Reason::NotFound, "no watches here");
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request>, const kube::CallAllOptions&,
                                               const rt::StopToken&) override {
    return {};
  }
  void set(std::string text) {
    rt::MutexLock lock(mutex_);
    text_ = std::move(text);
  }
  void set(const std::string& uid, const std::string& phase, const std::string& address) {
    set(R"({"metadata": {"uid": ")" + uid + R"("}, "status": {"phase": ")" + phase + R"(", "podIP": ")" + address +
        "\"}}");
  }

 private:
  rt::Mutex mutex_;
  std::string text_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::cli
