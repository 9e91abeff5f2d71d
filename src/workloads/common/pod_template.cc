#include "workloads/common/pod_template.h"

#include <array>

#include "base/hash.h"

namespace basalt::workloads {
namespace {

constexpr std::string_view kSafe = "bcdfghjklmnpqrstvwxz2456789";
constexpr std::size_t kSuffix = 5;
constexpr std::size_t kPrefixMax = 63 - kSuffix;

}  // namespace

json::Value pod_of_template(const json::Value& pod_template, const OwnerKind& kind, const Object& owner) {
  json::Object metadata{{"namespace", owner.metadata.namespace_},
                        {"ownerReferences", json::Array{controller_reference(kind, owner)}}};
  for (const std::string_view part : {"labels", "annotations", "finalizers"}) {
    if (const json::Value* value = pod_template.find_path({"metadata", part})) metadata.set(part, *value);
  }
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Pod"},
                      {"metadata", std::move(metadata)},
                      {"spec", object_at(pod_template, {"spec"})}};
}

std::string generated_name(rt::Runtime& runtime, std::string_view prefix) {
  std::string name(prefix.substr(0, kPrefixMax));
  for (std::size_t i = 0; i < kSuffix; ++i) name += kSafe[runtime.random_below(kSafe.size())];
  return name;
}

std::string safe_text(std::uint64_t number) {
  std::string text;
  for (std::size_t i = 0; i < 10; ++i, number /= kSafe.size()) text += kSafe[number % kSafe.size()];
  return text;
}

std::string template_hash(const json::Value& pod_template, std::int64_t collisions) {
  std::string text = pod_template.to_text();
  if (collisions > 0) text += std::to_string(collisions);
  const base::Sha256Digest digest = base::sha256(text);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number = number << 8 | digest[i];
  return safe_text(number);
}

}  // namespace basalt::workloads
