#include "webhooks/live_view.h"

#include <algorithm>

#include "json/value.h"
#include "kube/typed.h"

namespace basalt::webhooks {
namespace {

using api::scheduling::Queue;

constexpr std::string_view kByParent = "parent";

kube::InformerOptions<Queue> queue_options() {
  kube::InformerOptions<Queue> options;
  options.reflector.resource = kube::resource_of<Queue>();
  options.indexes.push_back({std::string(kByParent), [](const Queue& queue, std::vector<std::string>& values) {
                               if (!queue.spec.parent.empty()) values.push_back(queue.spec.parent);
                             }});
  return options;
}

template <class T>
std::unique_ptr<kube::Informer<T>> make_informer(bool is_wanted, rt::Runtime& runtime, kube::Client& client,
                                                 const Logger& log) {
  if (!is_wanted) return nullptr;
  kube::InformerOptions<T> options;
  options.reflector.resource = kube::resource_of<T>();
  return std::make_unique<kube::Informer<T>>(runtime, client, log, std::move(options));
}

QueuePtr read_queue(kube::Client& client, std::string_view name, rt::Duration timeout, const rt::StopToken& stop) {
  if (name.empty()) return nullptr;
  kube::Request request;
  request.resource = kube::resource_of<Queue>();
  request.name = name;
  request.timeout = timeout;
  const auto response = client.call(request, stop);
  if (!response.ok()) return nullptr;
  auto queue = decode_queue(*response->body);
  return queue.ok() ? *queue : nullptr;
}

}  // namespace

InformerClusterView::InformerClusterView(rt::Runtime& runtime, kube::Client& client, Logger log,
                                         InformerViewOptions options)
    : client_(client),
      options_(options),
      queues_(runtime, client, log, queue_options()),
      namespaces_(make_informer<api::core::Namespace>(options.watch_namespaces, runtime, client, log)),
      priority_classes_(make_informer<api::core::PriorityClass>(options.watch_priority_classes, runtime, client, log)),
      fresh_reads_(runtime, {.per_second = options.fresh_reads_per_second,
                             .burst = std::max(1.0, options.fresh_reads_per_second)}),
      stop_(runtime) {}

void InformerClusterView::start() {
  queues_.start();
  if (namespaces_) namespaces_->start();
  if (priority_classes_) priority_classes_->start();
}

void InformerClusterView::stop() {
  stop_.request_stop();
  queues_.stop();
  if (namespaces_) namespaces_->stop();
  if (priority_classes_) priority_classes_->stop();
}

bool InformerClusterView::wait_synced(const rt::StopToken& stop) {
  return queues_.wait_synced(stop) && (!namespaces_ || namespaces_->wait_synced(stop));
}

bool InformerClusterView::has_synced() const {
  return queues_.has_synced() && (!namespaces_ || namespaces_->has_synced());
}

QueuePtr InformerClusterView::queue(std::string_view name) const { return queues_.get({"", std::string(name)}); }

QueuePtr InformerClusterView::fresh_queue(std::string_view name) const {
  if (!fresh_reads_.try_acquire()) return queue(name);
  if (QueuePtr fresh = read_queue(client_, name, options_.fresh_read_timeout, stop_.token())) return fresh;
  return queue(name);
}

std::vector<QueuePtr> InformerClusterView::children_of(std::string_view parent) const {
  return queues_.by_index(kByParent, parent);
}

void InformerClusterView::for_each_queue(const std::function<bool(const Queue&)>& visit) const {
  bool goes_on = true;
  queues_.for_each([&](const Queue& queue) {
    if (goes_on) goes_on = visit(queue);
  });
}

std::optional<std::string> InformerClusterView::namespace_annotation(std::string_view ns, std::string_view key) const {
  if (!namespaces_) return std::nullopt;
  const auto found = namespaces_->get({"", std::string(ns)});
  if (!found) return std::nullopt;
  const auto value = found->metadata.annotations.find(key);
  return value ? std::optional<std::string>(*value) : std::nullopt;
}

std::optional<std::vector<std::string>> InformerClusterView::priority_classes() const {
  if (!priority_classes_ || !priority_classes_->has_synced()) return std::nullopt;
  std::vector<std::string> names;
  priority_classes_->for_each([&](const api::core::PriorityClass& one) { names.push_back(one.metadata.name); });
  return names;
}

QueuePtr ClientClusterView::queue(std::string_view name) const {
  return read_queue(client_, name, std::chrono::seconds(5), {});
}

std::vector<QueuePtr> ClientClusterView::children_of(std::string_view parent) const {
  std::vector<QueuePtr> children;
  for_each_queue([&](const Queue& queue) {
    if (queue.spec.parent == parent) children.push_back(std::make_shared<const Queue>(queue));
    return true;
  });
  return children;
}

void ClientClusterView::for_each_queue(const std::function<bool(const Queue&)>& visit) const {
  kube::ListRequest request;
  request.resource = kube::resource_of<Queue>();
  const auto page = client_.list(request, {});
  if (!page.ok()) return;
  for (const kube::Bytes& item : page->items) {
    const auto queue = decode_queue(*item);
    if (queue.ok() && !visit(**queue)) return;
  }
}

std::optional<std::string> ClientClusterView::namespace_annotation(std::string_view ns, std::string_view key) const {
  kube::Request request;
  request.resource = {"", "v1", "namespaces"};
  request.name = ns;
  const auto response = client_.call(request, {});
  if (!response.ok()) return std::nullopt;
  const auto object = json::Value::parse(*response->body);
  if (!object.ok()) return std::nullopt;
  const json::Value* value = object->find_path({"metadata", "annotations", key});
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->as_string();
}

std::optional<std::vector<std::string>> ClientClusterView::priority_classes() const {
  kube::ListRequest request;
  request.resource = kube::resource_of<api::core::PriorityClass>();
  const auto page = client_.list(request, {});
  if (!page.ok()) return std::nullopt;
  std::vector<std::string> names;
  for (const kube::Bytes& item : page->items) {
    const auto object = json::Value::parse(*item);
    if (object.ok()) names.emplace_back(object->string_at({"metadata", "name"}));
  }
  return names;
}

}  // namespace basalt::webhooks
