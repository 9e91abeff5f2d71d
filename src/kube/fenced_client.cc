#include <algorithm>
#include <utility>

#include "kube/leader_election.h"

namespace basalt::kube {
namespace {

// So many requests of a call_all are sent between two looks at the leadership.
constexpr std::size_t kWaveMax = 512;

class FencedClient final : public Client {
 public:
  FencedClient(Client& inner, const LeaderElector& elector) : inner_(inner), elector_(elector) {}

  Result<Response> call(const Request& request, const rt::StopToken& stop) override {
    if (request.verb == Verb::Get) return inner_.call(request, stop);
    const rt::Duration left = elector_.is_leader_until() - elector_.clock();
    if (left <= rt::Duration::zero()) return lapsed();
    if (request.timeout <= left) return inner_.call(request, stop);
    Request clipped = request;
    clipped.timeout = left;
    return inner_.call(clipped, stop);
  }

  Result<ListPage> list(const ListRequest& request, const rt::StopToken& stop) override {
    return inner_.list(request, stop);
  }

  Result<std::unique_ptr<WatchStream>> watch(const WatchRequest& request, const rt::StopToken& stop) override {
    return inner_.watch(request, stop);
  }

  std::vector<Result<Response>> call_all(std::span<const Request> requests, const CallAllOptions& options,
                                         const rt::StopToken& stop) override {
    std::vector<Result<Response>> results;
    results.reserve(requests.size());
    CallAllOptions left_over = options;
    // Requests wait for their turn in there, and must not be sent if that comes too late.
    rt::StopSource either(elector_.runtime(), stop);
    const auto lost = elector_.leading().on_stop([&either] { either.request_stop(); });
    while (results.size() < requests.size()) {
      const auto wave = requests.subspan(results.size(), std::min(kWaveMax, requests.size() - results.size()));
      const rt::Duration left = elector_.is_leader_until() - elector_.clock();
      const bool spent = options.failures_max > 0 && left_over.failures_max <= 0;
      if (left <= rt::Duration::zero() || spent) {
        results.resize(requests.size(), spent ? not_sent() : lapsed());
        break;
      }
      std::vector<Request> clipped(wave.begin(), wave.end());
      for (Request& request : clipped) request.timeout = std::min<rt::Duration>(request.timeout, left);
      for (auto& result : inner_.call_all(clipped, left_over, either.token())) {
        if (!result.ok()) --left_over.failures_max;
        results.push_back(std::move(result));
      }
      if (options.failures_max == 0) left_over.failures_max = 0;
    }
    return results;
  }

 private:
  static Error lapsed() {
    return Error::make(Reason::Cancelled, "not sent: the leadership has lapsed, another may act by now");
  }
  static Error not_sent() { return Error::make(Reason::Cancelled, "not sent: too many failures before it"); }

  Client& inner_;
  const LeaderElector& elector_;
};

}  // namespace

std::unique_ptr<Client> fenced_client(Client& inner, const LeaderElector& elector) {
  return std::make_unique<FencedClient>(inner, elector);
}

}  // namespace basalt::kube
