#include "apiserver/builtin/service_admission.h"

#include <algorithm>
#include <utility>

#include "apiserver/builtin/fields.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::uint32_t kNodePortFirst = 30000;
constexpr std::uint32_t kNodePortLast = 32767;
constexpr std::uint32_t kFixedNodePorts = 86;  // Kubernetes leaves as many to those who name a port
constexpr std::string_view kServices = "/services";

// The lower sixteenth of a range, at most 256 addresses, is left to services that name their address.
std::uint32_t dynamic_start(std::pair<std::uint32_t, std::uint32_t> range) {
  return range.first + std::min<std::uint32_t>(256, (range.second - range.first) / 16);
}

template <class Visit>
void for_each_service(Store& store, Visit visit) {
  ListQuery query;
  query.resource = store.resource(kServices);
  const auto listing = store.list(query);
  if (!listing.ok()) return;
  for (const EntryRef& entry : listing->entries) visit(*entry);
}

std::set<std::uint32_t> taken_addresses(Store& store) {
  std::set<std::uint32_t> taken;
  for_each_service(store, [&](const Entry& entry) {
    if (const auto address = parse_ipv4(entry.attributes().field("spec.clusterIP").value_or("")))
      taken.insert(*address);
  });
  return taken;
}

std::set<std::uint32_t> taken_node_ports(Store& store) {
  std::set<std::uint32_t> taken;
  for_each_service(store, [&](const Entry& entry) {
    const auto type = entry.attributes().field("spec.type").value_or("");
    if (type != "NodePort" && type != "LoadBalancer") return;
    const auto service = json::Value::parse(*entry.object());
    if (!service.ok()) return;
    for (const json::Value& port : list_at(*service, {"spec", "ports"})) {
      const std::int64_t number = int_at(port, "nodePort").value_or(0);
      if (number > 0 && number <= 65535) taken.insert(static_cast<std::uint32_t>(number));
    }
  });
  return taken;
}

class ServiceAdmission final : public AdmissionHook {
 public:
  ServiceAdmission(Store& store, std::string range_text, std::pair<std::uint32_t, std::uint32_t> range)
      : range_text_(std::move(range_text)),
        addresses_({range.first, range.second, dynamic_start(range)}, [&store] { return taken_addresses(store); }),
        node_ports_({kNodePortFirst, kNodePortLast, kNodePortFirst + kFixedNodePorts},
                    [&store] { return taken_node_ports(store); }) {}

  [[nodiscard]] bool handles(const AdmissionRequest& request) const override {
    return request.type.plural == "services" && request.type.group.empty() && request.subresource.empty() &&
           (request.operation == Operation::Create || request.operation == Operation::Update);
  }

  Done mutate(AdmissionRequest& request, json::Value& service) override {
    json::Value* spec = service.find("spec");
    if (spec == nullptr || !spec->is_object()) return Ok{};
    const std::string type(text_at(*spec, "type"));  // a copy: members move when others are set
    if (type == "ExternalName") return Ok{};
    if (request.old_object != nullptr) keep_addresses(*spec, *request.old_object);
    BASALT_TRY_DONE(give_address(request, *spec));
    const bool is_balanced = type == "LoadBalancer" && flag_at(*spec, "allocateLoadBalancerNodePorts");
    if (type == "NodePort" || is_balanced) BASALT_TRY_DONE(give_node_ports(request, *spec));
    return Ok{};
  }

  Done validate(AdmissionRequest&, const json::Value*) override { return Ok{}; }

 private:
  // A client that writes a service back without what it was given means no change.
  static void keep_addresses(json::Value& spec, const json::Value& old) {
    const json::Value* before = old.find("spec");
    if (before == nullptr || text_at(*before, "type") == "ExternalName") return;
    if (!text_at(spec, "clusterIP").empty()) return;
    for (const std::string_view name : {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"}) {
      const json::Value* value = before->find(name);
      if (value != nullptr && member(spec, name) == nullptr) spec.as_object().set(name, *value);
    }
    json::Array* ports = mutable_list(spec, "ports");
    const json::Array& old_ports = list_at(*before, "ports");
    for (std::size_t i = 0; ports != nullptr && i < ports->size() && i < old_ports.size(); ++i) {
      const std::int64_t number = int_at(old_ports[i], "nodePort").value_or(0);
      if (number != 0 && text_at(spec, "type") != "ClusterIP" && (*ports)[i].is_object()) {
        set_default_int((*ports)[i].as_object(), "nodePort", number);
      }
    }
  }

  Done give_address(AdmissionRequest& request, json::Value& spec) {
    json::Object& members = spec.as_object();
    std::string address(text_at(spec, "clusterIP"));
    const json::Array& listed = list_at(spec, "clusterIPs");
    if (address.empty() && !listed.empty() && listed[0].is_string()) address = listed[0].as_string();
    if (address == "None") {
      members.set("clusterIP", address);
      set_default(members, "clusterIPs", json::Array{json::Value(address)});
      set_families(members, text_at(spec, "selector").empty() && map_at(spec, "selector").empty());
      return Ok{};
    }
    const bool had_it = request.old_object != nullptr &&
                        request.old_object->string_at({"spec", "clusterIP"}) == address && !address.empty();
    if (!had_it) {
      BASALT_TRY(address, allocate(request, address));
    }
    members.set("clusterIP", address);
    set_default(members, "clusterIPs", json::Array{json::Value(address)});
    set_families(members, false);
    return Ok{};
  }

  // One family only; a headless service without pods of its own may be of any.
  static void set_families(json::Object& spec, bool is_selectorless) {
    if (is_selectorless) {
      set_default(spec, "ipFamilies", json::Array{json::Value("IPv4"), json::Value("IPv6")});
      set_default(spec, "ipFamilyPolicy", "RequireDualStack");
    } else {
      set_default(spec, "ipFamilies", json::Array{json::Value("IPv4")});
      set_default(spec, "ipFamilyPolicy", "SingleStack");
    }
  }

  Result<std::string> allocate(AdmissionRequest& request, const std::string& wanted) {
    if (wanted.empty()) {
      const auto address = addresses_.take();
      if (!address) {
        return Error::make(Reason::InternalError, "failed to allocate a serviceIP: range is full");
      }
      return format_ipv4(*address);
    }
    const auto number = parse_ipv4(wanted);
    const auto refuse = [&](const std::string& why) {
      return invalid(request.type, request.name,
                     {invalid_value("spec.clusterIPs", json::Value(json::Array{json::Value(wanted)}).to_text(), why)});
    };
    if (!number) {
      return invalid(request.type, request.name,
                     {invalid_value("spec.clusterIPs[0]", base::quote(wanted),
                                    "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")});
    }
    if (!addresses_.contains(*number)) {
      return refuse("failed to allocate IP " + wanted + ": the provided IP (" + wanted +
                    ") is not in the valid range. The range of valid IPs is " + range_text_);
    }
    if (!addresses_.take(*number)) {
      return refuse("failed to allocate IP " + wanted + ": provided IP is already allocated");
    }
    return wanted;
  }

  Done give_node_ports(AdmissionRequest& request, json::Value& spec) {
    json::Array* ports = mutable_list(spec, "ports");
    if (ports == nullptr) return Ok{};
    for (std::size_t i = 0; i < ports->size(); ++i) {
      if (!(*ports)[i].is_object()) continue;
      const std::int64_t wanted = int_at((*ports)[i], "nodePort").value_or(0);
      if (wanted == 0) {
        const auto number = node_ports_.take();
        if (!number) return Error::make(Reason::InternalError, "failed to allocate a nodePort: range is full");
        (*ports)[i].as_object().set("nodePort", static_cast<std::int64_t>(*number));
        continue;
      }
      if (request.old_object != nullptr && has_node_port(*request.old_object, wanted)) continue;
      const std::string field = "spec.ports[" + std::to_string(i) + "].nodePort";
      if (wanted < kNodePortFirst || wanted > kNodePortLast) {
        return invalid(request.type, request.name,
                       {invalid_value(field, std::to_string(wanted),
                                      "provided port is not in the valid range. The range of valid ports is "
                                      "30000-32767")});
      }
      if (!node_ports_.take(static_cast<std::uint32_t>(wanted))) {
        return invalid(request.type, request.name,
                       {invalid_value(field, std::to_string(wanted), "provided port is already allocated")});
      }
    }
    return Ok{};
  }

  static bool has_node_port(const json::Value& service, std::int64_t number) {
    for (const json::Value& port : list_at(service, {"spec", "ports"})) {
      if (int_at(port, "nodePort") == number) return true;
    }
    return false;
  }

  const std::string range_text_;
  NumberPool addresses_;
  NumberPool node_ports_;
};

}  // namespace

std::optional<std::uint32_t> NumberPool::take() {
  if (const auto number = find_free()) return number;
  read_again();
  return find_free();
}

bool NumberPool::take(std::uint32_t number) {
  bool seems_free = false;
  {
    rt::MutexLock lock(mutex_);
    seems_free = has_read_ && !used_.contains(number);
  }
  // Who tries again after a refusal finds the number given to himself: only what a stored service has is taken.
  if (!seems_free && read_again().contains(number)) return false;
  rt::MutexLock lock(mutex_);
  recent_.insert(number);
  used_.insert(number);
  return true;
}

std::set<std::uint32_t> NumberPool::read_again() {
  std::set<std::uint32_t> taken = taken_();
  rt::MutexLock lock(mutex_);
  used_ = taken;
  used_.insert(recent_.begin(), recent_.end());
  recent_.clear();
  has_read_ = true;
  return taken;
}

std::optional<std::uint32_t> NumberPool::find_free() {
  rt::MutexLock lock(mutex_);
  if (!has_read_) return std::nullopt;
  // In a circle, so that an address that has just become free is not given to somebody else at once.
  const std::uint64_t count = std::uint64_t{range_.last} - range_.first + 1;
  for (std::uint64_t i = 0; i < count && used_.size() < count; ++i) {
    const std::uint32_t candidate = next_;
    next_ = next_ == range_.last ? range_.first : next_ + 1;
    if (!used_.insert(candidate).second) continue;
    recent_.insert(candidate);
    return candidate;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> parse_ipv4(std::string_view text) {
  const auto parts = base::split(text, '.');
  if (parts.size() != 4) return std::nullopt;
  std::uint32_t address = 0;
  for (const std::string_view part : parts) {
    const auto number = base::parse_uint64(part);
    if (!number || *number > 255 || part.size() > 3 || (part.size() > 1 && part[0] == '0')) return std::nullopt;
    address = address << 8 | static_cast<std::uint32_t>(*number);
  }
  return address;
}

std::string format_ipv4(std::uint32_t address) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) {
    text += (text.empty() ? "" : ".") + std::to_string(address >> shift & 0xFF);
  }
  return text;
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_ip_range(std::string_view text) {
  const auto parts = base::split_once(text, '/');
  if (!parts) return std::nullopt;
  const auto address = parse_ipv4(parts->first);
  const auto bits = base::parse_uint64(parts->second);
  if (!address || !bits || *bits < 8 || *bits > 30) return std::nullopt;
  const std::uint32_t mask = ~std::uint32_t{0} >> *bits;
  // Neither the network's own address nor the one that means everybody.
  return std::pair((*address & ~mask) + 1, (*address | mask) - 1);
}

std::shared_ptr<AdmissionHook> service_admission(Store& store, std::string service_ip_range) {
  constexpr std::pair<std::uint32_t, std::uint32_t> kFallback{0x0A600001, 0x0A60FFFE};  // 10.96.0.0/16
  const auto range = parse_ip_range(service_ip_range).value_or(kFallback);
  return std::make_shared<ServiceAdmission>(store, std::move(service_ip_range), range);
}

}  // namespace basalt::apiserver
