#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/scheduling_queue.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::webhooks {

using QueuePtr = std::shared_ptr<const api::scheduling::Queue>;

// What rules need to know of the cluster. Thread-safe. Answers may lag behind the API server; `fresh_queue` is asked
// before a write is refused for the state of a queue, so that nobody is turned away by a cache that is a moment late.
class ClusterView {
 public:
  virtual ~ClusterView() = default;
  [[nodiscard]] virtual QueuePtr queue(std::string_view name) const = 0;  // null if there is none
  [[nodiscard]] virtual QueuePtr fresh_queue(std::string_view name) const { return queue(name); }
  [[nodiscard]] virtual std::vector<QueuePtr> children_of(std::string_view parent) const = 0;  // sorted by name
  // Every queue, in no stated order, until the visitor says false.
  virtual void for_each_queue(const std::function<bool(const api::scheduling::Queue&)>& visit) const = 0;
  // Null if the namespace, or the annotation, is not there (or nobody can know).
  [[nodiscard]] virtual std::optional<std::string> namespace_annotation(std::string_view ns,
                                                                        std::string_view key) const = 0;
  // Nothing if the view does not know priority classes.
  [[nodiscard]] virtual std::optional<std::vector<std::string>> priority_classes() const { return std::nullopt; }
};

// A view that holds what it is given: for tests, and where somebody else watches. Change it before it is shared.
class StoredClusterView final : public ClusterView {
 public:
  // InvalidInput if it is no queue.
  Done put_queue(const json::Value& queue);
  void remove_queue(std::string_view name);
  void put_namespace(std::string name, std::map<std::string, std::string, std::less<>> annotations);
  void set_priority_classes(std::vector<std::string> names) { priority_classes_ = std::move(names); }

  [[nodiscard]] QueuePtr queue(std::string_view name) const override;
  [[nodiscard]] std::vector<QueuePtr> children_of(std::string_view parent) const override;
  void for_each_queue(const std::function<bool(const api::scheduling::Queue&)>& visit) const override;
  [[nodiscard]] std::optional<std::string> namespace_annotation(std::string_view ns,
                                                                std::string_view key) const override;
  [[nodiscard]] std::optional<std::vector<std::string>> priority_classes() const override { return priority_classes_; }

 private:
  std::map<std::string, QueuePtr, std::less<>> queues_;
  std::map<std::string, std::map<std::string, std::string, std::less<>>, std::less<>> namespaces_;
  std::optional<std::vector<std::string>> priority_classes_;
};

// Decodes without keeping what the rules do not read.
[[nodiscard]] Result<QueuePtr> decode_queue(std::string_view text);

}  // namespace basalt::webhooks
