#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/mutex.h"

namespace basalt::test {

// One right as RBAC has it: a verb on a resource (with its subresource) of a group.
struct Right {
  std::string group;
  std::string resource;  // "jobs", "jobs/status"
  std::string verb;      // "get", "list", "watch", "create", "update", "patch", "delete"
  auto operator<=>(const Right&) const = default;
  [[nodiscard]] std::string to_string() const { return verb + " " + resource + (group.empty() ? "" : "." + group); }
};

// Passes everything on and notes the rights that it took, and what was refused for lack of one.
class RecordingClient : public kube::Client {
 public:
  explicit RecordingClient(kube::Client& inner) : inner_(inner) {}

  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    note(right_of(request));
    note_owners(request);
    auto response = inner_.call(request, stop);
    if (!response.ok()) refuse(right_of(request), response.error());
    return response;
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    const Right right{request.resource.group, request.resource.plural, "list"};
    note(right);
    auto page = inner_.list(request, stop);
    if (!page.ok()) refuse(right, page.error());
    return page;
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    const Right right{request.resource.group, request.resource.plural, "watch"};
    note(right);
    // A streaming list stands for both; servers without it make the client list.
    note({right.group, right.resource, "list"});
    auto stream = inner_.watch(request, stop);
    if (!stream.ok()) refuse(right, stream.error());
    return stream;
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& options,
                                               const rt::StopToken& stop) override {
    for (const kube::Request& request : requests) {
      note(right_of(request));
      note_owners(request);
    }
    auto responses = inner_.call_all(requests, options, stop);
    for (std::size_t i = 0; i < responses.size(); ++i) {
      if (!responses[i].ok()) refuse(right_of(requests[i]), responses[i].error());
    }
    return responses;
  }

  [[nodiscard]] std::set<Right> used() const {
    rt::MutexLock lock(mutex_);
    return used_;
  }
  [[nodiscard]] std::set<Right> refused() const {
    rt::MutexLock lock(mutex_);
    return refused_;
  }

 private:
  static Right right_of(const kube::Request& request) {
    std::string resource = request.resource.plural;
    if (!request.subresource.empty()) resource += "/" + request.subresource;
    std::string verb;
    switch (request.verb) {
      case kube::Verb::Get:
        verb = "get";
        break;
      case kube::Verb::Create:
        verb = "create";
        break;
      case kube::Verb::Update:
        verb = "update";
        break;
      case kube::Verb::Patch:
        verb = "patch";
        break;
      case kube::Verb::Delete:
        verb = "delete";
        break;
      case kube::Verb::DeleteCollection:
        verb = "deletecollection";
        break;
    }
    return {request.resource.group, std::move(resource), std::move(verb)};
  }
  // The right to set an owner reference that blocks the owner's deletion, where a cluster enforces it.
  void note_owners(const kube::Request& request) {
    if (request.verb != kube::Verb::Create) return;
    const auto body = json::Value::parse(request.body);
    const json::Value* owners = body.ok() ? body->find_path({"metadata", "ownerReferences"}) : nullptr;
    if (owners == nullptr || !owners->is_array()) return;
    for (const json::Value& owner : owners->as_array()) {
      const json::Value* blocks = owner.find("blockOwnerDeletion");
      if (blocks == nullptr || !blocks->is_bool() || !blocks->as_bool()) continue;
      const std::string_view api_version = owner.string_at({"apiVersion"});
      const std::size_t slash = api_version.find('/');
      note({std::string(slash == std::string_view::npos ? "" : api_version.substr(0, slash)),
            base::to_lower_ascii(owner.string_at({"kind"})) + "s/finalizers", "update"});
    }
  }
  void note(const Right& right) {
    rt::MutexLock lock(mutex_);
    used_.insert(right);
  }
  void refuse(const Right& right, const Error& error) {
    if (!error.is(Reason::Forbidden)) return;
    rt::MutexLock lock(mutex_);
    refused_.insert(right);
  }

  kube::Client& inner_;
  mutable rt::Mutex mutex_;
  std::set<Right> used_ BASALT_GUARDED_BY(mutex_);
  std::set<Right> refused_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::test
