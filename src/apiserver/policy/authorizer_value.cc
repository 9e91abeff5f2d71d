#include "apiserver/policy/admission_values.h"
#include "apiserver/registry/access.h"
#include "cel/function.h"

namespace basalt::apiserver {
namespace {

template <class T, class... Arguments>
cel::Value extension(Arguments&&... arguments) {
  return cel::Value(
      cel::Value::Data(cel::Value::ExtensionRef(std::make_shared<const T>(std::forward<Arguments>(arguments)...))));
}

class Decision final : public cel::Extension {
 public:
  explicit Decision(AccessDecision decision) : decision_(std::move(decision)) {}
  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.authorization.Decision"; }
  [[nodiscard]] Result<cel::Value> call(std::string_view method, std::span<const cel::Value>) const override {
    if (method == "allowed") return cel::Value::of_bool(decision_.allowed);
    if (method == "reason") return cel::Value::of_text(decision_.reason);
    if (method == "errored") return cel::Value::of_bool(false);
    if (method == "error") return cel::Value::of_text("");
    return cel::no_overload();
  }

 private:
  AccessDecision decision_;
};

// The authorizer and every check that is built from it: each method gives a copy that says more.
class Authorizer final : public cel::Extension {
 public:
  Authorizer(ApiServer& server, AccessRequest request, AccessRequest of_request)
      : server_(server), request_(std::move(request)), of_request_(std::move(of_request)) {}
  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.authorization.Authorizer"; }

  [[nodiscard]] Result<cel::Value> member(std::string_view name) const override {
    if (name == "requestResource") return extension<Authorizer>(server_, of_request_, of_request_);
    return Error::invalid_input("no such key: " + std::string(name));
  }

  [[nodiscard]] Result<cel::Value> call(std::string_view method, std::span<const cel::Value> given) const override {
    std::vector<std::string> texts;
    for (const cel::Value& value : given) {
      const auto* text = value.get<cel::Text>();
      if (text == nullptr) return cel::no_overload();
      texts.emplace_back(text->view);
    }
    if (texts.empty()) return cel::no_overload();
    AccessRequest next = request_;
    if (method == "serviceAccount" && texts.size() == 2) {
      next.user = {"system:serviceaccount:" + texts[0] + ":" + texts[1],
                   "",
                   {"system:serviceaccounts", "system:serviceaccounts:" + texts[0], "system:authenticated"}};
    } else if (method == "check") {
      next.verb = texts[0];
      return extension<Decision>(server_.authorize(next));
    } else if (std::string* place = place_of(method, next)) {
      *place = texts[0];
    } else {
      return cel::no_overload();
    }
    return extension<Authorizer>(server_, std::move(next), of_request_);
  }

 private:
  static std::string* place_of(std::string_view method, AccessRequest& request) {
    if (method == "path") return &request.path;
    if (method == "group") return &request.group;
    if (method == "resource") return &request.resource;
    if (method == "subresource") return &request.subresource;
    if (method == "namespace") return &request.ns;
    return method == "name" ? &request.name : nullptr;
  }

  ApiServer& server_;
  const AccessRequest request_;
  const AccessRequest of_request_;
};

}  // namespace

cel::Value authorizer_value(ApiServer& server, const AdmissionRequest& request) {
  AccessRequest plain;
  plain.user = request.user;
  AccessRequest full = plain;
  full.group = request.type.group;
  full.version = request.type.version;
  full.resource = request.type.plural;
  full.subresource = request.subresource;
  full.ns = request.ns;
  full.name = request.name;
  return extension<Authorizer>(server, std::move(plain), std::move(full));
}

}  // namespace basalt::apiserver
