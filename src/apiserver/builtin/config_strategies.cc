#include "apiserver/builtin/config_strategies.h"

#include <algorithm>

#include "api/names.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/registry/metadata.h"
#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kDataBytesMax = 1u << 20;

void check_key(const std::string& key, const FieldPath& path, Causes& causes) {
  if (api::is_config_key(key)) return;
  add_invalid(causes, path.key(key).text(), key, api::config_key_complaints(key));
}

// Bytes behind base64, counted without decoding them.
std::size_t decoded_size(std::string_view text) {
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  return text.size() / 4 * 3 - std::min(padding, text.size() / 4 * 3);
}

// Adds up the bytes of a map of base64 texts and complains about what is none.
std::size_t check_encoded(const json::Object& data, const FieldPath& path, Causes& causes) {
  std::size_t bytes = 0;
  for (const json::Member& one : data) {
    check_key(one.key, path, causes);
    if (one.value.is_string() && base::base64_decode(one.value.as_string())) {
      bytes += decoded_size(one.value.as_string());
    } else {
      causes.push_back(wrong_type(path.key(one.key).text(), "<contents redacted>", "must be base64"));
    }
  }
  return bytes;
}

bool is_immutable(const json::Value& object) { return flag_at(object, "immutable"); }

void check_still_immutable(const json::Value& object, const json::Value& old,
                           std::initializer_list<std::string_view> fields, Causes& causes) {
  if (!is_immutable(old)) return;
  constexpr std::string_view kWhy = "field is immutable when `immutable` is set";
  if (!is_immutable(object)) causes.push_back(forbidden_field("immutable", kWhy));
  for (const std::string_view field : fields) {
    if (differs(object, old, {field})) causes.push_back(forbidden_field(std::string(field), kWhy));
  }
}

void drop_if_empty(json::Object& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value != nullptr && value->is_object() && value->as_object().empty()) object.erase(name);
}

void default_config_map(json::Value& object) {
  drop_if_empty(object.as_object(), "data");
  drop_if_empty(object.as_object(), "binaryData");
}

void validate_config_map(const json::Value& object, Causes& causes) {
  const json::Object& binary = map_at(object, "binaryData");
  const FieldPath data_path("data");
  std::size_t bytes = 0;
  for (const json::Member& one : map_at(object, "data")) {
    check_key(one.key, data_path, causes);
    if (binary.contains(one.key)) {
      causes.push_back(
          invalid_value(data_path.key(one.key).text(), base::quote(one.key), "duplicate of key present in binaryData"));
    }
    if (one.value.is_string()) {
      bytes += one.value.as_string().size();
    } else {
      causes.push_back(wrong_type(data_path.key(one.key).text(), shown(one.value), "must be a string"));
    }
  }
  bytes += check_encoded(binary, FieldPath("binaryData"), causes);
  if (bytes > kDataBytesMax) causes.push_back(too_long("", kDataBytesMax));
}

void validate_config_map_update(const json::Value& object, const json::Value& old, Causes& causes) {
  check_still_immutable(object, old, {"data", "binaryData"}, causes);
}

json::Array config_map_cells(const json::Value& object, api::Time now) {
  const std::size_t count = map_at(object, "data").size() + map_at(object, "binaryData").size();
  return {metadata_text(object, "name"), static_cast<std::int64_t>(count), age_of(object, now)};
}

void default_secret(json::Value& object) {
  json::Object& members = object.as_object();
  set_default_text(members, "type", "Opaque");
  // stringData is for writers only: it ends up in data.
  if (json::Object* plain = mutable_map(object, "stringData")) {
    const json::Object texts = std::move(*plain);
    members.erase("stringData");
    if (!texts.empty()) {
      if (json::Object* data = ensure_map(members, "data")) {
        for (const json::Member& one : texts) {
          if (one.value.is_string()) data->set(one.key, base::base64_encode(one.value.as_string()));
        }
      }
    }
  }
  drop_if_empty(members, "data");
}

void check_docker_config(const json::Object& data, std::string_view key, const FieldPath& path, Causes& causes) {
  const json::Value* value = data.find(key);
  if (value == nullptr) {
    causes.push_back(required(path.key(key).text()));
    return;
  }
  const auto bytes = value->is_string() ? base::base64_decode(value->as_string()) : std::nullopt;
  const auto parsed = bytes ? json::Value::parse(*bytes) : Result<json::Value>(json::Value());
  if (parsed.ok() && parsed->is_object()) return;
  causes.push_back(invalid_value(path.key(key).text(), "\"<secret contents redacted>\"",
                                 parsed.ok() ? "must be a JSON object" : parsed.error().message));
}

void check_secret_type(const json::Value& object, const json::Object& data, const FieldPath& path, Causes& causes) {
  const std::string_view type = text_at(object, "type");
  const auto require = [&](std::string_view key) {
    if (!data.contains(key)) causes.push_back(required(path.key(key).text()));
  };
  if (type == "kubernetes.io/service-account-token") {
    constexpr std::string_view kAccount = "kubernetes.io/service-account.name";
    if (object.string_at({"metadata", "annotations", kAccount}).empty()) {
      causes.push_back(required("metadata.annotations[" + std::string(kAccount) + "]"));
    }
  } else if (type == "kubernetes.io/dockercfg") {
    check_docker_config(data, ".dockercfg", path, causes);
  } else if (type == "kubernetes.io/dockerconfigjson") {
    check_docker_config(data, ".dockerconfigjson", path, causes);
  } else if (type == "kubernetes.io/basic-auth") {
    if (!data.contains("username") && !data.contains("password")) {
      require("username");
      require("password");
    }
  } else if (type == "kubernetes.io/ssh-auth") {
    require("ssh-privatekey");
  } else if (type == "kubernetes.io/tls") {
    require("tls.crt");
    require("tls.key");
  }
}

void validate_secret(const json::Value& object, Causes& causes) {
  const FieldPath path("data");
  const json::Object& data = map_at(object, "data");
  if (check_encoded(data, path, causes) > kDataBytesMax) causes.push_back(too_long("data", kDataBytesMax));
  check_secret_type(object, data, path, causes);
}

void validate_secret_update(const json::Value& object, const json::Value& old, Causes& causes) {
  check_immutable(object, old, {"type"}, causes);
  check_still_immutable(object, old, {"data"}, causes);
}

json::Array secret_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"), text_at(object, "type"),
          static_cast<std::int64_t>(map_at(object, "data").size()), age_of(object, now)};
}

}  // namespace

TypeList config_types() {
  KindRules map_rules;
  map_rules.defaults = default_config_map;
  map_rules.validate = validate_config_map;
  map_rules.validate_update = validate_config_map_update;
  map_rules.cells = config_map_cells;
  ResourceType maps = basic_type("", "v1", "configmaps", "ConfigMap", true);
  maps.short_names = {"cm"};
  maps.strategy = make_strategy(std::move(map_rules));
  maps.columns = {name_column(), column("Data", "string", "Number of keys."), age_column()};

  KindRules secret_rules;
  secret_rules.defaults = default_secret;
  secret_rules.validate = validate_secret;
  secret_rules.validate_update = validate_secret_update;
  secret_rules.cells = secret_cells;
  secret_rules.selectable = {{"type"}};
  ResourceType secrets = basic_type("", "v1", "secrets", "Secret", true);
  secrets.strategy = make_strategy(std::move(secret_rules));
  secrets.columns = {name_column(), column("Type", "string", "What the secret is for."),
                     column("Data", "string", "Number of keys."), age_column()};
  return {std::make_shared<const ResourceType>(std::move(maps)),
          std::make_shared<const ResourceType>(std::move(secrets))};
}

}  // namespace basalt::apiserver
