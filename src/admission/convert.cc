#include "admission/convert.h"

#include <utility>

namespace basalt::admission {

webhooks::Operation to_operation(apiserver::Operation operation) {
  switch (operation) {
    case apiserver::Operation::Create:
      return webhooks::Operation::Create;
    case apiserver::Operation::Update:
      return webhooks::Operation::Update;
    case apiserver::Operation::Delete:
      return webhooks::Operation::Delete;
    case apiserver::Operation::Connect:
      break;
  }
  return webhooks::Operation::Connect;
}

webhooks::ReviewRequest to_review(const apiserver::AdmissionRequest& from) {
  webhooks::ReviewRequest to;
  to.operation = to_operation(from.operation);
  to.group = from.type.group;
  to.version = from.type.version;
  to.kind = from.type.kind;
  to.resource = from.type.plural;
  to.subresource = from.subresource;
  to.ns = from.ns;
  to.name = from.name;
  to.user = {from.user.name, from.user.uid, from.user.groups, nullptr};
  to.dry_run = from.dry_run;
  to.old_object = from.old_object;
  return to;
}

Error denied(Error error, const webhooks::Hook& hook) {
  error.message = "admission webhook \"" + std::string(hook.webhook_name) + "\" denied the request: " + error.message;
  return error;
}

}  // namespace basalt::admission
