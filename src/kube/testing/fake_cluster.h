#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "json/value.h"
#include "kube/client.h"
#include "rt/runtime.h"

namespace basalt::kube::testing {

// A small API server for tests of this folder: any resource, versioned objects, watch history with compaction, paged
// and streaming lists, optimistic locking, merge patches, finalizers. No schemas, no defaulting, no admission: the
// embedded API server has those. Works in a simulation and with real threads.
class FakeCluster : public Client {
 public:
  explicit FakeCluster(rt::Runtime& runtime);
  ~FakeCluster() override;

  Result<Response> call(const Request& request, const rt::StopToken& stop) override;
  Result<ListPage> list(const ListRequest& request, const rt::StopToken& stop) override;
  Result<std::unique_ptr<WatchStream>> watch(const WatchRequest& request, const rt::StopToken& stop) override;
  std::vector<Result<Response>> call_all(std::span<const Request> requests, const CallAllOptions& options,
                                         const rt::StopToken& stop) override;

  // Direct access for tests; these do not wait.
  std::string put(const Resource& resource, std::string_view object);  // creates or replaces; its resource version
  bool remove(const Resource& resource, std::string_view ns, std::string_view name);
  [[nodiscard]] std::map<std::string, Bytes> objects(const Resource& resource) const;  // "ns/name" -> text
  [[nodiscard]] std::uint64_t revision() const;

  void compact();         // forgets all history: watches from earlier revisions get 410
  void break_watches();   // every open stream ends with ConnectionLost
  void end_watches();     // every open stream ends in good order
  void send_bookmarks();  // to every open stream that wants them
  void set_streaming_lists(bool supported);
  [[nodiscard]] std::size_t open_watches() const;
  [[nodiscard]] std::uint64_t lists() const;

 private:
  class Stream;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace basalt::kube::testing
