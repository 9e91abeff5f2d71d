#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kube/client.h"
#include "rt/mutex.h"

namespace basalt::controllers::sharding::testing {

// A function that one thread may exchange while others call it.
template <class Signature>
class Hook {
 public:
  using Function = std::function<Signature>;
  Hook& operator=(Function function) {
    auto next = function ? std::make_shared<const Function>(std::move(function)) : nullptr;
    const rt::MutexLock lock(mutex_);
    function_.swap(next);
    return *this;
  }
  [[nodiscard]] std::shared_ptr<const Function> get() const {
    const rt::MutexLock lock(mutex_);
    return function_;
  }

 private:
  mutable rt::Mutex mutex_;
  std::shared_ptr<const Function> function_ BASALT_GUARDED_BY(mutex_);
};

// A client whose calls a test may answer itself, and whose watches may lose events, as no server should. The hooks run
// on the calling threads, which in a simulation are never two at once.
class TamperingClient final : public kube::Client {
 public:
  explicit TamperingClient(kube::Client& inner) : inner_(inner) {}

  Hook<std::optional<Error>(const kube::Request&)> refuse_call;
  Hook<std::optional<Error>(const kube::Resource&)> refuse_read;  // lists and watches
  Hook<bool(const kube::Resource&, const kube::WatchEvent&)> lose_event;

  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    if (const auto hook = refuse_call.get()) {
      if (auto error = (*hook)(request)) return *error;
    }
    return inner_.call(request, stop);
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    if (const auto hook = refuse_read.get()) {
      if (auto error = (*hook)(request.resource)) return *error;
    }
    return inner_.list(request, stop);
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    if (const auto hook = refuse_read.get()) {
      if (auto error = (*hook)(request.resource)) return *error;
    }
    auto stream = inner_.watch(request, stop);
    if (!stream.ok()) return stream;
    return std::unique_ptr<kube::WatchStream>(
        std::make_unique<Stream>(*this, request.resource, std::move(stream).value()));
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& options,
                                               const rt::StopToken& stop) override {
    if (!refuse_call.get()) return inner_.call_all(requests, options, stop);
    std::vector<Result<kube::Response>> results;
    for (const kube::Request& request : requests) results.push_back(call(request, stop));
    return results;
  }

 private:
  class Stream final : public kube::WatchStream {
   public:
    Stream(TamperingClient& owner, kube::Resource resource, std::unique_ptr<kube::WatchStream> inner)
        : owner_(owner), resource_(std::move(resource)), inner_(std::move(inner)) {}
    Result<std::optional<kube::WatchEvent>> next(rt::Instant deadline) override {
      for (;;) {
        auto event = inner_->next(deadline);
        if (!event.ok() || !*event) return event;
        const auto hook = owner_.lose_event.get();
        if (!hook || !(*hook)(resource_, **event)) return event;
      }
    }
    void cancel() override { inner_->cancel(); }

   private:
    TamperingClient& owner_;
    const kube::Resource resource_;
    std::unique_ptr<kube::WatchStream> inner_;
  };

  kube::Client& inner_;
};

}  // namespace basalt::controllers::sharding::testing
