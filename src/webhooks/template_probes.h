#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "kube/client.h"
#include "kube/lru.h"
#include "rt/mutex.h"
#include "rt/runtime.h"
#include "webhooks/review.h"
#include "webhooks/rule_context.h"

// Questions about a job's pod templates that only the API server can answer; both are options of the server. Answers
// are remembered for a while, so a thousand jobs of one template ask once.

namespace basalt::webhooks {

// Remembers answers by key. Thread-safe.
class AnswerCache {
 public:
  AnswerCache(rt::Runtime& runtime, std::size_t entries_max, rt::Duration lifetime)
      : runtime_(runtime), lifetime_(lifetime), entries_(entries_max) {}
  [[nodiscard]] std::optional<Done> find(const std::string& key);
  void put(const std::string& key, Done answer);

 private:
  struct Entry {
    std::optional<Done> answer;
    rt::Instant expires;
  };
  rt::Runtime& runtime_;
  const rt::Duration lifetime_;
  rt::Mutex mutex_;
  kube::LruMap<std::string, Entry> entries_ BASALT_GUARDED_BY(mutex_);
};

struct ProbeOptions {
  std::size_t cached_max = 1024;
  rt::Duration cached_for = std::chrono::minutes(5);
  rt::Duration timeout = std::chrono::seconds(3);  // well below the API server's patience with us
};

// Sends the template as a pod, with dry-run, and passes on what the API server says of it. What is no judgement of the
// template (a quota that is full now, an API server that does not answer) is no refusal: the pods will wait for it.
class DryRunProbe final : public TemplateProbe {
 public:
  DryRunProbe(rt::Runtime& runtime, kube::Client& client, Logger log, ProbeOptions options = {});
  Done check(const ReviewUser& user, const std::string& ns, const json::Value& pod_template) override;

 private:
  kube::Client& client_;
  const Logger log_;
  const ProbeOptions options_;
  AnswerCache cache_;
};

// Asks by SubjectAccessReview whether the user who submits the job may create pods in its namespace and, where the
// template names a service account, may `use` it: the controller makes the pods, so without this a right to create
// jobs is a right to every service account of the namespace. No answer means no.
class AccessProbe final : public TemplateProbe {
 public:
  AccessProbe(rt::Runtime& runtime, kube::Client& client,
              ProbeOptions options = {.cached_for = std::chrono::minutes(1)});
  Done check(const ReviewUser& user, const std::string& ns, const json::Value& pod_template) override;

 private:
  struct Access {
    std::string_view verb;
    std::string_view resource;
    std::string_view name;
  };
  Done ask(const ReviewUser& user, const std::string& ns, const Access& access);

  kube::Client& client_;
  const ProbeOptions options_;
  AnswerCache cache_;
};

}  // namespace basalt::webhooks
