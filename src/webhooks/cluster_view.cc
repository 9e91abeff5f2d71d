#include "webhooks/cluster_view.h"

#include "json/reader.h"

namespace basalt::webhooks {

Result<QueuePtr> decode_queue(std::string_view text) {
  BASALT_TRY(auto queue, json::from_text<api::scheduling::Queue>(text, {.keep_unknown = false}));
  return QueuePtr(std::make_shared<const api::scheduling::Queue>(std::move(queue)));
}

Done StoredClusterView::put_queue(const json::Value& queue) {
  BASALT_TRY(QueuePtr decoded, decode_queue(queue.to_text()));
  if (decoded->metadata.name.empty()) return Error::invalid_input("queue: metadata.name is missing");
  std::string name = decoded->metadata.name;
  queues_[std::move(name)] = std::move(decoded);
  return Ok{};
}

void StoredClusterView::remove_queue(std::string_view name) {
  if (const auto found = queues_.find(name); found != queues_.end()) queues_.erase(found);
}

void StoredClusterView::put_namespace(std::string name, std::map<std::string, std::string, std::less<>> annotations) {
  namespaces_[std::move(name)] = std::move(annotations);
}

QueuePtr StoredClusterView::queue(std::string_view name) const {
  const auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : found->second;
}

std::vector<QueuePtr> StoredClusterView::children_of(std::string_view parent) const {
  std::vector<QueuePtr> children;
  for (const auto& [name, queue] : queues_) {
    if (queue->spec.parent == parent) children.push_back(queue);
  }
  return children;
}

void StoredClusterView::for_each_queue(const std::function<bool(const api::scheduling::Queue&)>& visit) const {
  for (const auto& [name, queue] : queues_) {
    if (!visit(*queue)) return;
  }
}

std::optional<std::string> StoredClusterView::namespace_annotation(std::string_view ns, std::string_view key) const {
  const auto found = namespaces_.find(ns);
  if (found == namespaces_.end()) return std::nullopt;
  const auto annotation = found->second.find(key);
  if (annotation == found->second.end()) return std::nullopt;
  return annotation->second;
}

}  // namespace basalt::webhooks
