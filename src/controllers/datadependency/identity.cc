#include "controllers/datadependency/identity.h"

#include <algorithm>

#include "api/names.h"
#include "base/hash.h"
#include "base/strings.h"
#include "json/value.h"

namespace basalt::controllers::datadependency {
namespace {

constexpr std::size_t kNameBytesMax = 253;
constexpr std::size_t kReadablePartBytesMax = 240;
constexpr std::size_t kAttributesDigits = 8;
constexpr std::size_t kIdentityDigits = 10;

std::string canonical(const DataIdentity& identity) {
  json::Object attributes;
  for (const auto& [key, value] : identity.attributes) attributes.set(key, value);
  return json::Value(json::Object{{"attributes", std::move(attributes)},
                                  {"name", identity.name},
                                  {"system", identity.system},
                                  {"type", identity.type}})
      .to_text();
}

// "k=v,k=v", sorted by key.
std::string joined(const api::StringMap& attributes) {
  std::string text;
  for (const auto& [key, value] : attributes)
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + std::string(value);
  return text;
}

bool may_stand_in_name(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-'; }

}  // namespace

DataIdentity DataIdentity::of(const api::datadependency::DataSourceClaim& claim) {
  return {claim.spec.system, claim.spec.data_source_type, claim.spec.data_source_name, claim.spec.attributes};
}

DataIdentity DataIdentity::of(const api::datadependency::DataSource& source) {
  return {source.spec.system, source.spec.type, source.spec.name, source.spec.attributes};
}

std::string DataIdentity::key() const { return canonical(*this); }

std::string DataIdentity::to_string() const {
  std::string text = system + " " + type + " " + name;
  if (!attributes.empty()) text += " (" + joined(attributes) + ")";
  return text;
}

std::string data_source_name(const DataIdentity& identity) {
  std::string name = identity.system + "-" + identity.type + "-" + identity.name;
  if (!identity.attributes.empty())
    name += "-" + base::sha256_hex(joined(identity.attributes)).substr(0, kAttributesDigits);
  if (name.size() <= kNameBytesMax && api::dns1123_subdomain_complaints(name).empty()) return name;
  return hashed_data_source_name(identity);
}

std::string hashed_data_source_name(const DataIdentity& identity) {
  std::string name = base::to_lower_ascii(identity.system + "-" + identity.type + "-" + identity.name);
  std::ranges::replace_if(name, [](char c) { return !may_stand_in_name(c); }, '-');
  if (name.size() > kReadablePartBytesMax) name.resize(kReadablePartBytesMax);
  const auto is_edge = [](char c) { return c == '.' || c == '-'; };
  while (!name.empty() && is_edge(name.back())) name.pop_back();
  name.erase(name.begin(), std::ranges::find_if_not(name, is_edge));
  // A part between two dots may neither begin nor end with a dash.
  std::string clean;
  for (const std::string_view part : base::split(name, '.')) {
    std::string_view inner = part;
    while (!inner.empty() && inner.front() == '-') inner.remove_prefix(1);
    while (!inner.empty() && inner.back() == '-') inner.remove_suffix(1);
    if (inner.empty()) continue;
    clean += (clean.empty() ? "" : ".") + std::string(inner);
  }
  return (clean.empty() ? "data" : clean) + "-" + base::sha256_hex(canonical(identity)).substr(0, kIdentityDigits);
}

std::string workload_key(const std::string& api_version, const std::string& kind, const std::string& ns,
                         const std::string& name) {
  if (api_version.empty() || kind.empty() || name.empty()) return "";
  return api_version + "/" + kind + "/" + ns + "/" + name;
}

std::string workload_key(const api::datadependency::DataSourceClaim& claim) {
  const auto& workload = claim.spec.workload;
  return workload_key(workload.api_version, workload.kind,
                      workload.namespace_.empty() ? claim.metadata.namespace_ : workload.namespace_, workload.name);
}

}  // namespace basalt::controllers::datadependency
