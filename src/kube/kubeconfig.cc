#include "kube/kubeconfig.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/encoding.h"
#include "base/strings.h"
#include "json/value.h"
#include "yaml/reader.h"

namespace basalt::kube {
namespace {

// A kubeconfig with hundreds of clusters and in-line certificates is below this.
constexpr std::size_t kFileBytesMax = 4u << 20;
constexpr std::size_t kEntriesMax = 10'000;

// Reads the fields of one entry; the first mistake is kept. Messages name the file and the field.
class FieldReader {
 public:
  FieldReader(const std::string& file, std::string where) : file_(file), where_(std::move(where)) {}

  void text(const json::Value& object, std::string_view key, std::string& out) {
    const json::Value* value = present(object, key);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(key, "is a " + std::string(value->type_name()) + ", expected a string");
    out = value->as_string();
  }
  void boolean(const json::Value& object, std::string_view key, bool& out) {
    const json::Value* value = present(object, key);
    if (value == nullptr) return;
    if (!value->is_bool()) return fail(key, "is a " + std::string(value->type_name()) + ", expected true or false");
    out = value->as_bool();
  }
  // A path, relative to the file that names it.
  void path(const json::Value& object, std::string_view key, std::string& out) {
    text(object, key, out);
    if (!out.empty()) out = resolve(out);
  }
  // Base64, as all *-data fields are.
  void data(const json::Value& object, std::string_view key, std::string& out) {
    std::string encoded;
    text(object, key, encoded);
    if (encoded.empty()) return;
    std::erase_if(encoded, base::is_space);  // people fold long lines
    auto decoded = base::base64_decode(encoded);
    if (!decoded) return fail(key, "is not valid base64");
    out = std::move(*decoded);
  }
  void texts(const json::Value& object, std::string_view key, std::vector<std::string>& out) {
    const json::Value* value = present(object, key);
    if (value == nullptr) return;
    if (!value->is_array()) return fail(key, "is a " + std::string(value->type_name()) + ", expected a list");
    for (const json::Value& item : value->as_array()) {
      if (!item.is_string()) return fail(key, "holds something that is no string");
      out.push_back(item.as_string());
    }
  }
  [[nodiscard]] const json::Value* present(const json::Value& object, std::string_view key) const {
    const json::Value* value = object.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  [[nodiscard]] std::string resolve(const std::string& path) const {
    const std::filesystem::path given(path);
    if (given.is_absolute()) return path;
    return (std::filesystem::path(file_).parent_path() / given).lexically_normal().string();
  }
  void fail(std::string_view key, std::string_view problem) {
    if (error_) return;
    error_ = Error::invalid_input(file_ + ": " + where_ + "." + std::string(key) + " " + std::string(problem));
  }
  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  const std::string& file_;
  const std::string where_;
  std::optional<Error> error_;
};

void read_impersonation(FieldReader& reader, const json::Value& user, Impersonation& as) {
  reader.text(user, "as", as.user);
  reader.text(user, "as-uid", as.uid);
  reader.texts(user, "as-groups", as.groups);
  const json::Value* extra = reader.present(user, "as-user-extra");
  if (extra == nullptr) return;
  if (!extra->is_object()) return reader.fail("as-user-extra", "is not a map of lists");
  for (const auto& [key, value] : extra->as_object()) {
    std::vector<std::string> values;
    reader.texts(*extra, key, values);
    as.extra.emplace_back(key, std::move(values));
  }
}

std::optional<ExecConfig> read_exec(FieldReader& reader, const json::Value& user, const std::string& origin) {
  const json::Value* exec = reader.present(user, "exec");
  if (exec == nullptr) return std::nullopt;
  ExecConfig config;
  config.origin = origin;
  reader.text(*exec, "apiVersion", config.api_version);
  reader.text(*exec, "command", config.command);
  reader.texts(*exec, "args", config.args);
  reader.text(*exec, "installHint", config.install_hint);
  reader.boolean(*exec, "provideClusterInfo", config.provide_cluster_info);
  reader.text(*exec, "interactiveMode", config.interactive_mode);
  // A command with a slash is a path relative to the file; one without is looked up in PATH.
  if (config.command.find('/') != std::string::npos) config.command = reader.resolve(config.command);
  if (config.command.empty()) reader.fail("exec.command", "is missing: name the program to run");
  if (config.api_version != "client.authentication.k8s.io/v1" &&
      config.api_version != "client.authentication.k8s.io/v1beta1") {
    reader.fail("exec.apiVersion", "is " + base::quote(base::ellipsize(config.api_version, 128)) +
                                       ", expected client.authentication.k8s.io/v1 or /v1beta1; update the program "
                                       "that wrote this entry");
  }
  if (const json::Value* env = reader.present(*exec, "env"); env != nullptr && env->is_array()) {
    for (const json::Value& variable : env->as_array()) {
      config.env.emplace_back(variable.string_at({"name"}), variable.string_at({"value"}));
    }
  }
  return config;
}

KubeconfigCluster read_cluster(FieldReader& reader, const json::Value& value) {
  KubeconfigCluster cluster;
  reader.text(value, "server", cluster.server);
  reader.text(value, "tls-server-name", cluster.tls_server_name);
  reader.boolean(value, "insecure-skip-tls-verify", cluster.insecure_skip_tls_verify);
  reader.path(value, "certificate-authority", cluster.ca_file);
  reader.data(value, "certificate-authority-data", cluster.ca_pem);
  reader.text(value, "proxy-url", cluster.proxy_url);
  return cluster;
}

KubeconfigUser read_user(FieldReader& reader, const json::Value& value, const std::string& origin) {
  KubeconfigUser user;
  reader.path(value, "client-certificate", user.certificate_file);
  reader.data(value, "client-certificate-data", user.certificate_pem);
  reader.path(value, "client-key", user.key_file);
  reader.data(value, "client-key-data", user.key_pem);
  reader.text(value, "token", user.token);
  reader.path(value, "tokenFile", user.token_file);
  reader.text(value, "username", user.username);
  reader.text(value, "password", user.password);
  if (const json::Value* provider = reader.present(value, "auth-provider")) {
    user.auth_provider = provider->string_at({"name"});
    if (user.auth_provider.empty()) user.auth_provider = "unnamed";
  }
  user.exec = read_exec(reader, value, origin);
  read_impersonation(reader, value, user.impersonation);
  return user;
}

KubeconfigContext read_context(FieldReader& reader, const json::Value& value) {
  KubeconfigContext context;
  reader.text(value, "cluster", context.cluster);
  reader.text(value, "user", context.user);
  reader.text(value, "namespace", context.ns);
  return context;
}

// clusters, users and contexts are lists of {name, <kind>: {...}}. Of two entries of one name the last counts, as for
// kubectl within one file.
template <class T, class Read>
Done read_entries(const json::Value& root, const std::string& file, std::string_view list_key, std::string_view kind,
                  std::vector<T>& out, Read read) {
  const json::Value* list = root.find(list_key);
  if (list == nullptr || list->is_null()) return Ok();
  if (!list->is_array()) {
    return Error::invalid_input(file + ": " + std::string(list_key) + " is a " + std::string(list->type_name()) +
                                ", expected a list");
  }
  if (list->as_array().size() > kEntriesMax) {
    return Error::invalid_input(file + ": " + std::string(list_key) + " has more than " + std::to_string(kEntriesMax) +
                                " entries");
  }
  std::size_t index = 0;
  for (const json::Value& item : list->as_array()) {
    const std::string where = std::string(list_key) + "[" + std::to_string(index++) + "]";
    const std::string name(item.string_at({"name"}));
    if (name.empty()) return Error::invalid_input(file + ": " + where + ".name is missing");
    const json::Value* body = item.find(kind);
    const json::Value empty = json::Object();
    if (body == nullptr || body->is_null()) body = &empty;
    const std::string label = std::string(kind) + " " + base::quote(name);
    if (!body->is_object()) return Error::invalid_input(file + ": " + label + " is not a map");
    FieldReader reader(file, label);
    T entry = read(reader, *body, label + " in " + file);
    if (reader.error()) return *reader.error();
    entry.name = name;
    entry.origin = file;
    std::erase_if(out, [&name](const T& other) { return other.name == name; });
    out.push_back(std::move(entry));
  }
  return Ok();
}

template <class T>
void merge_entries(std::vector<T>& into, std::vector<T>&& from) {
  for (T& entry : from) {
    const bool known = std::any_of(into.begin(), into.end(), [&](const T& other) { return other.name == entry.name; });
    if (!known) into.push_back(std::move(entry));
  }
}

}  // namespace

ConfigEnvironment ConfigEnvironment::of_process() {
  ConfigEnvironment env;
  env.variable = [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
  env.read_file = [](const std::string& path) -> Result<std::string> {
    std::error_code problem;
    const auto status = std::filesystem::status(path, problem);
    if (!std::filesystem::exists(status)) return Error::make(Reason::NotFound, path + ": no such file");
    if (std::filesystem::is_directory(status)) return Error::invalid_input(path + ": is a folder, expected a file");
    std::ifstream file(path, std::ios::binary);
    std::string text;
    std::array<char, 16384> piece;
    while (file && text.size() <= kFileBytesMax) {
      file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
      text.append(piece.data(), static_cast<std::size_t>(file.gcount()));
    }
    if (!file && !file.eof()) return Error::invalid_input(path + ": cannot be read; check its permissions");
    if (text.size() > kFileBytesMax) return Error::invalid_input(path + ": is larger than 4 MiB");
    return text;
  };
  return env;
}

Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& path) {
  Result<json::Value> root = yaml::read(text);
  if (!root.ok()) return root.error().with_context(path);
  Kubeconfig config;
  config.files.push_back(path);
  if (root->is_null()) return config;
  if (!root->is_object()) {
    return Error::invalid_input(path + ": is a " + std::string(root->type_name()) + ", expected a kubeconfig");
  }
  const std::string_view kind = root->string_at({"kind"});
  if (!kind.empty() && kind != "Config") {
    return Error::invalid_input(path + ": kind is " + base::quote(base::ellipsize(kind, 64)) +
                                ", expected Config: this is no kubeconfig");
  }
  config.current_context = root->string_at({"current-context"});
  BASALT_TRY_DONE(read_entries(
      *root, path, "clusters", "cluster", config.clusters,
      [](FieldReader& reader, const json::Value& value, const auto&) { return read_cluster(reader, value); }));
  BASALT_TRY_DONE(read_entries(*root, path, "users", "user", config.users, read_user));
  BASALT_TRY_DONE(read_entries(
      *root, path, "contexts", "context", config.contexts,
      [](FieldReader& reader, const json::Value& value, const auto&) { return read_context(reader, value); }));
  return config;
}

Result<Kubeconfig> load_kubeconfig(const std::vector<std::string>& paths, const ConfigEnvironment& env) {
  Kubeconfig merged;
  for (const std::string& path : paths) {
    Result<std::string> text = env.read_file(path);
    if (!text.ok() && text.error().is(Reason::NotFound)) continue;
    if (!text.ok()) return std::move(text).error();
    BASALT_TRY(Kubeconfig one, parse_kubeconfig(*text, path));
    merged.files.push_back(path);
    if (merged.current_context.empty()) merged.current_context = one.current_context;
    merge_entries(merged.clusters, std::move(one.clusters));
    merge_entries(merged.users, std::move(one.users));
    merge_entries(merged.contexts, std::move(one.contexts));
  }
  return merged;
}

std::vector<std::string> kubeconfig_paths(const ConfigOverrides& overrides, const ConfigEnvironment& env) {
  if (!overrides.kubeconfig.empty()) return {overrides.kubeconfig};
  std::vector<std::string> paths;
  if (const auto list = env.variable("KUBECONFIG"); list && !list->empty()) {
    for (const std::string_view path : base::split(*list, ':')) {
      const bool known = std::find(paths.begin(), paths.end(), path) != paths.end();
      if (!path.empty() && !known) paths.emplace_back(path);
    }
    return paths;
  }
  if (const auto home = env.variable("HOME"); home && !home->empty()) paths.push_back(*home + "/.kube/config");
  return paths;
}

}  // namespace basalt::kube
