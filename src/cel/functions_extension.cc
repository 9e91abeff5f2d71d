// Kubernetes' quantities, versions, addresses and URLs, and the methods that only extensions have.

#include "api/quantity.h"
#include "base/strings.h"
#include "cel/function.h"
#include "cel/net_values.h"
#include "cel/semver_value.h"

namespace basalt::cel {
namespace {

class QuantityValue final : public Extension {
 public:
  explicit QuantityValue(api::Quantity quantity) : quantity_(quantity) {}
  static Value make(api::Quantity quantity) {
    return Value(Value::Data(Value::ExtensionRef(std::make_shared<const QuantityValue>(quantity))));
  }

  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.Quantity"; }
  [[nodiscard]] bool equals(const Extension& other) const override {
    return quantity_ == static_cast<const QuantityValue&>(other).quantity_;
  }
  [[nodiscard]] Result<Value> call(std::string_view method, std::span<const Value> arguments) const override {
    if (arguments.empty()) return property(method);
    const auto* other = dynamic_cast<const QuantityValue*>(arguments[0].extension());
    const auto* number = arguments[0].get<std::int64_t>();
    if (method == "add" || method == "sub") {
      if (other == nullptr && number == nullptr) return no_overload();
      const api::Quantity operand = other != nullptr ? other->quantity_ : api::Quantity::of(*number);
      return make(method == "add" ? quantity_ + operand : quantity_ - operand);
    }
    if (other == nullptr) return no_overload();
    if (method == "isLessThan") return Value::of_bool(quantity_ < other->quantity_);
    if (method == "isGreaterThan") return Value::of_bool(quantity_ > other->quantity_);
    if (method != "compareTo") return no_overload();
    return Value::of_int(quantity_ < other->quantity_ ? -1 : quantity_ > other->quantity_ ? 1 : 0);
  }

 private:
  [[nodiscard]] bool is_integer() const { return api::Quantity::of(quantity_.value()) == quantity_; }

  [[nodiscard]] Result<Value> property(std::string_view method) const {
    if (method == "sign") return Value::of_int(quantity_.sign());
    if (method == "isInteger") return Value::of_bool(is_integer());
    if (method == "asApproximateFloat") return Value(Value::Data(quantity_.to_double()));
    if (method == "string") return Value::of_text(quantity_.to_string());
    if (method != "asInteger") return no_overload();
    if (!is_integer()) return Error::invalid_input("cannot convert value to integer");
    return Value::of_int(quantity_.value());
  }

  api::Quantity quantity_;
};

Result<Value> to_quantity(const Call& call) {
  if (call[0].extension() != nullptr && call[0].type_name() == "kubernetes.Quantity") return call[0];
  const auto text = call.text(0);
  if (!text) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(text->size() / 10));
  BASALT_TRY(const api::Quantity quantity, api::Quantity::parse(*text));
  return QuantityValue::make(quantity);
}

Result<Value> to_ip(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  return parse_ip(*text);
}

Result<Value> to_cidr(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  return parse_cidr(*text);
}

Result<Value> to_url(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(text->size() / 10));
  return parse_url(*text);
}

Result<Value> is_readable(const Call& call) {
  const auto text = call.text(0);
  if (!text) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(text->size() / 10));
  if (call.name == "isIP") return Value::of_bool(parse_ip(*text).ok());
  if (call.name == "isCIDR") return Value::of_bool(parse_cidr(*text).ok());
  if (call.name == "isURL") return Value::of_bool(parse_url(*text).ok());
  return Value::of_bool(api::Quantity::parse(*text).ok());
}

// semver(text), isSemver(text); a second argument that is true takes what people write, too.
Result<Value> to_semver(const Call& call) {
  const auto text = call.text(0);
  const auto* normalize = call.get<bool>(1);
  if (!text || (call.size() > 1 && normalize == nullptr)) return no_overload();
  BASALT_TRY_DONE(call.cost.spend(text->size() / 10));
  auto version = parse_semver(*text, normalize != nullptr && *normalize);
  if (call.name == "isSemver") return Value::of_bool(version.ok());
  return version;
}

constexpr Function kExtensionFunctions[] = {
    {"quantity", false, 1, 1, to_quantity, "kubernetes.Quantity"},
    {"isQuantity", false, 1, 1, is_readable, "bool"},
    {"ip", false, 1, 1, to_ip, "net.IP"},
    {"isIP", false, 1, 1, is_readable, "bool"},
    {"cidr", false, 1, 1, to_cidr, "net.CIDR"},
    {"isCIDR", false, 1, 1, is_readable, "bool"},
    {"url", false, 1, 1, to_url, "kubernetes.URL"},
    {"isURL", false, 1, 1, is_readable, "bool"},
    {"semver", false, 1, 2, to_semver, "kubernetes.Semver"},
    {"isSemver", false, 1, 2, to_semver, "bool"},
    // Quantities, and the last three versions, too.
    {"sign", true, 0, 0},
    {"isInteger", true, 0, 0},
    {"asInteger", true, 0, 0},
    {"asApproximateFloat", true, 0, 0},
    {"add", true, 1, 1},
    {"sub", true, 1, 1},
    {"isLessThan", true, 1, 1},
    {"isGreaterThan", true, 1, 1},
    {"compareTo", true, 1, 1},
    // Versions.
    {"major", true, 0, 0},
    {"minor", true, 0, 0},
    {"patch", true, 0, 0},
    // Addresses.
    {"family", true, 0, 0},
    {"isUnspecified", true, 0, 0},
    {"isLoopback", true, 0, 0},
    {"isLinkLocalMulticast", true, 0, 0},
    {"isLinkLocalUnicast", true, 0, 0},
    {"isGlobalUnicast", true, 0, 0},
    {"prefixLength", true, 0, 0},
    {"ip", true, 0, 0},
    {"masked", true, 0, 0},
    {"containsIP", true, 1, 1},
    {"containsCIDR", true, 1, 1},
    // URLs.
    {"getScheme", true, 0, 0},
    {"getHost", true, 0, 0},
    {"getHostname", true, 0, 0},
    {"getPort", true, 0, 0},
    {"getEscapedPath", true, 0, 0},
    {"getQuery", true, 0, 0},
    // The authorizer of admission.
    {"path", true, 1, 1},
    {"group", true, 1, 1},
    {"resource", true, 1, 1},
    {"subresource", true, 1, 1},
    {"namespace", true, 1, 1},
    {"name", true, 1, 1},
    {"serviceAccount", true, 2, 2},
    {"check", true, 1, 1},
    {"allowed", true, 0, 0},
    {"reason", true, 0, 0},
    {"errored", true, 0, 0},
    {"error", true, 0, 0},
    {"fieldSelector", true, 1, 1},
    {"labelSelector", true, 1, 1},
};

}  // namespace

std::span<const Function> extension_functions() { return kExtensionFunctions; }

}  // namespace basalt::cel
