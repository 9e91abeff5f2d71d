#include "workloads/common/keyed_controller.h"

#include <utility>

#include "workloads/common/pod_template.h"

namespace basalt::workloads {

using rt::Outcome;

KeyedController::KeyedController(Context& context, Options options, kube::Informer<Object>& objects)
    : context_(context),
      options_(std::move(options)),
      log_(context.log.with({{"controller", options_.name}})),
      objects_(objects),
      work_(context.runtime, {.name = options_.name, .backoff = {.cap = options_.backoff_max}},
            [](const api::ObjectKey& key) { return std::hash<std::string>()(key.ns); }),
      expectations_(context.runtime, {.name = options_.name, .metrics = &context.metrics},
                    [this](const api::ObjectKey& key) { work_.add(key); }),
      writer_(context.client, expectations_) {
  expectations_.connect(objects.core());
  objects.add_handler([this](const kube::Change<Object>& change) { work_.add(change.object().key()); });
}

void KeyedController::start() {
  workers_.emplace(
      context_.runtime, work_, rt::WorkersOptions{.name = options_.name, .count = options_.workers},
      [this](const api::ObjectKey& key, const rt::StopToken& stop) { return work_on(key, stop); },
      [this](const api::ObjectKey& key, const Outcome& outcome, rt::Duration) { log_outcome(key, outcome); });
}

void KeyedController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

Outcome KeyedController::work_on(const api::ObjectKey& key, const rt::StopToken& stop) {
  if (work_.take_overflowed()) objects_.for_each([this](const Object& object) { work_.add(object.key()); });
  if (Done settled = writer_.settle(key, stop); !settled.ok()) return Outcome::failed(std::move(settled).error());
  if (!expectations_.is_current(key))
    return Outcome::retry_after(expectations_.time_left(key).value_or(rt::Duration::zero()));
  const auto object = objects_.get(key);
  if (object) return reconcile(*object, stop);
  expectations_.forget(key);
  writer_.forget(key);
  return gone(key, stop);
}

void KeyedController::add_adopters(std::string_view ns, const api::StringMap& labels) {
  for (const auto& object : objects_.list_namespace(ns)) {
    const auto selector = selector_of(*object, options_.kind);
    if (selector.ok() && selector->matches(labels)) work_.add(object->key());
  }
}

Done KeyedController::make_pods(const Object& object, std::vector<json::Value> pods, const rt::StopToken& stop) {
  const std::string prefix = object.metadata.name + "-";
  for (json::Value& pod : pods) {
    pod.ensure_path({"metadata", "generateName"}) = prefix;
    pod.ensure_path({"metadata", "name"}) = generated_name(context_.runtime, prefix);
  }
  const auto results = writer_.create_all(object.key(), resources::kPods, pods, stop);
  std::optional<Error> error;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].ok()) {
      tell(object, kube::EventType::Normal, "SuccessfulCreate",
           "Created pod: " + std::string(pods[i].string_at({"metadata", "name"})));
    } else if (!error || error->is(Reason::Cancelled)) {
      error = results[i].error();
    }
  }
  if (!error) return Ok{};
  // A name that is taken: the next try picks another.
  if (!error->is_transient() && !error->is(Reason::AlreadyExists) && !error->is(Reason::Cancelled))
    tell(object, kube::EventType::Warning, "FailedCreate", "Error creating: " + error->message);
  return error->with_context("a pod could not be made");
}

Done KeyedController::remove_pods(const Object& object, const std::vector<PodPtr>& pods, const rt::StopToken& stop) {
  std::vector<Writer::Target> targets;
  for (const PodPtr& pod : pods) targets.push_back({pod->metadata.name.str(), pod->metadata.uid.str()});
  BASALT_TRY_DONE(writer_.remove_all(object.key(), resources::kPods, targets, stop));
  for (const Writer::Target& target : targets)
    tell(object, kube::EventType::Normal, "SuccessfulDelete", "Deleted pod: " + target.name);
  return Ok{};
}

void KeyedController::tell(const Object& object, kube::EventType type, std::string_view reason,
                           std::string_view message) {
  context_.events.event({.api_version = std::string(options_.kind.api_version),
                         .kind = std::string(options_.kind.kind),
                         .ns = object.metadata.namespace_,
                         .name = object.metadata.name,
                         .uid = object.metadata.uid,
                         .resource_version = object.metadata.resource_version,
                         .field_path = ""},
                        type, reason, message);
}

void KeyedController::log_outcome(const api::ObjectKey& key, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(key) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "work is tried again",
           {{"object", key.to_string()}, {"error", *outcome.error}});
}

Outcome done_or_after(const std::optional<rt::Duration>& wait) {
  return wait ? Outcome::retry_after(*wait) : Outcome::done();
}

}  // namespace basalt::workloads
