#include "apiserver/http/accept.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "apiserver/proto/decode.h"
#include "base/sort.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kWishesMax = 100;  // further ones are not read

struct Wish {
  std::string_view media_type;
  int weight = 1000;  // thousandths
  bool is_known = true;
  bool converts = false;
  std::string_view kind;
  std::string_view group;
  std::string_view version;
};

// "0.8" in thousandths; nothing if it is no weight.
std::optional<int> weight_of(std::string_view text) {
  if (text.empty() || text.size() > 5 || (text[0] != '0' && text[0] != '1')) return std::nullopt;
  if (text.size() > 1 && text[1] != '.') return std::nullopt;
  int weight = (text[0] - '0') * 1000;
  int unit = 100;
  for (const char digit : text.substr(std::min<std::size_t>(text.size(), 2))) {
    if (digit < '0' || digit > '9') return std::nullopt;
    weight += (digit - '0') * unit;
    unit /= 10;
  }
  return std::min(weight, 1000);
}

Wish read_wish(std::string_view text) {
  Wish wish;
  bool is_first = true;
  for (const std::string_view part : base::split(text, ';')) {
    const std::string_view trimmed = base::trim(part);
    if (is_first) {
      wish.media_type = trimmed;
      is_first = false;
      continue;
    }
    const auto pair = base::split_once(trimmed, '=');
    if (!pair) continue;
    const std::string_view key = base::trim(pair->first);
    const std::string_view value = base::trim(pair->second);
    if (key == "q") {
      const auto weight = weight_of(value);
      wish.is_known = wish.is_known && weight.has_value();
      wish.weight = weight.value_or(0);
    } else if (key == "stream") {
      wish.is_known = wish.is_known && (value.empty() || value == "watch");
    } else if (key == "as" || key == "g" || key == "v") {
      wish.converts = true;
      (key == "as" ? wish.kind : key == "g" ? wish.group : wish.version) = value;
    }
  }
  return wish;
}

std::optional<AnswerForm> form_of(std::string_view kind) {
  if (kind == "Table") return AnswerForm::Table;
  if (kind == "PartialObjectMetadata") return AnswerForm::Metadata;
  if (kind == "PartialObjectMetadataList") return AnswerForm::MetadataList;
  return std::nullopt;
}

std::optional<Answer> answer_to(const Wish& wish, bool converts) {
  const bool is_json =
      wish.media_type == "application/json" || wish.media_type == "application/*" || wish.media_type == "*/*";
  if (!is_json || !wish.is_known || wish.weight == 0) return std::nullopt;
  if (!wish.converts) return Answer{};
  const auto form = form_of(wish.kind);
  if (!converts || !form || wish.group != "meta.k8s.io") return std::nullopt;
  if (wish.version == "v1") return Answer{*form, "v1"};
  if (wish.version == "v1beta1") return Answer{*form, "v1beta1"};
  return std::nullopt;
}

// The best first.
std::vector<Wish> read_wishes(std::string_view accept) {
  std::vector<Wish> wishes;
  for (const std::string_view text : base::split(accept, ',')) {
    if (wishes.size() == kWishesMax) break;
    if (!base::trim(text).empty()) wishes.push_back(read_wish(text));
  }
  base::stable_sort(wishes, [](const Wish& a, const Wish& b) { return a.weight > b.weight; });
  return wishes;
}

bool takes(const Wish& wish, std::string_view media_type) {
  if (wish.weight == 0) return false;
  const auto range = base::strip_suffix(wish.media_type, "/*");
  if (!range) return wish.media_type == media_type;
  return *range == "*" || media_type.substr(0, media_type.find('/')) == *range;
}

Error not_acceptable(std::string_view offered) {
  return Error::make(Reason::NotAcceptable, "only the following media types are accepted: " + std::string(offered));
}

}  // namespace

Result<Answer> negotiate(std::string_view accept, Offer offer) {
  if (base::trim(accept).empty()) return Answer{};
  const std::vector<Wish> wishes = read_wishes(accept);
  for (const Wish& wish : wishes) {
    if (auto answer = answer_to(wish, offer.converts)) return *answer;
  }
  const auto insists = [](const Wish& wish) {
    return wish.media_type == proto::kMediaType && wish.is_known && wish.weight > 0 && !wish.converts;
  };
  if (offer.has_protobuf && std::ranges::any_of(wishes, insists)) return Answer{.is_protobuf = true};
  std::string offered = "application/json";
  if (offer.has_protobuf) offered.append(", ").append(proto::kMediaType);
  return not_acceptable(offered);
}

Result<std::size_t> choose_media_type(std::string_view accept, std::span<const std::string_view> offered) {
  if (base::trim(accept).empty()) return 0;
  for (const Wish& wish : read_wishes(accept)) {
    for (std::size_t i = 0; i < offered.size(); ++i) {
      if (takes(wish, offered[i])) return i;
    }
  }
  return not_acceptable(base::join(offered, ", "));
}

}  // namespace basalt::apiserver
