#include "cli/up/embedded_admission.h"

#include <utility>

namespace basalt::cli {
namespace {

webhooks::Operation operation_of(apiserver::Operation operation) {
  switch (operation) {
    case apiserver::Operation::Create:
      return webhooks::Operation::Create;
    case apiserver::Operation::Update:
      return webhooks::Operation::Update;
    case apiserver::Operation::Delete:
      return webhooks::Operation::Delete;
    case apiserver::Operation::Connect:
      return webhooks::Operation::Connect;
  }
  return webhooks::Operation::Connect;
}

webhooks::ReviewRequest review_of(const apiserver::AdmissionRequest& request) {
  webhooks::ReviewRequest review;
  review.operation = operation_of(request.operation);
  review.group = request.type.group;
  review.version = request.type.version;
  review.kind = request.type.kind;
  review.resource = request.type.plural;
  review.subresource = request.subresource;
  review.ns = request.ns;
  review.name = request.name;
  review.user.name = request.user.name;
  review.user.uid = request.user.uid;
  review.user.groups = request.user.groups;
  review.dry_run = request.dry_run;
  review.old_object = request.old_object;
  return review;
}

}  // namespace

void EmbeddedAdmission::use(kube::Client& client) {
  auto active = std::make_shared<const Active>(client);
  rt::MutexLock lock(mutex_);
  active_ = std::move(active);
}

void EmbeddedAdmission::forget() {
  std::shared_ptr<const Active> dropped;
  rt::MutexLock lock(mutex_);
  dropped.swap(active_);
}

std::shared_ptr<const EmbeddedAdmission::Active> EmbeddedAdmission::active() const {
  rt::MutexLock lock(mutex_);
  return active_;
}

bool EmbeddedAdmission::handles(const apiserver::AdmissionRequest& request) const {
  if (!request.subresource.empty()) return false;
  const auto active = this->active();
  return active && active->rules.handles(request.type.group, request.type.plural, operation_of(request.operation));
}

Done EmbeddedAdmission::mutate(apiserver::AdmissionRequest& request, json::Value& object) {
  const auto active = this->active();
  if (!active) return Ok{};
  return active->rules.mutate(review_of(request), object, request.warnings);
}

Done EmbeddedAdmission::validate(apiserver::AdmissionRequest& request, const json::Value* object) {
  const auto active = this->active();
  if (!active) return Ok{};
  webhooks::ReviewRequest review = review_of(request);
  review.object = object;
  return active->rules.validate(review, request.warnings);
}

}  // namespace basalt::cli
