#include <algorithm>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "base/strings.h"
#include "controllers/datadependency/plugins/plugin.h"
#include "controllers/datadependency/plugins/table_answers.h"
#include "net/http_client.h"
#include "net/url.h"
#include "rt/mutex.h"

namespace basalt::controllers::datadependency {
namespace {

constexpr std::size_t kAnswerBytesMax = 64u << 20;

// "yyyyMMdd", as the dashboard's signature has it; the server's time zone is taken to be UTC.
std::string date_of(rt::WallTime now) {
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const auto two = [](unsigned value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  return std::to_string(static_cast<int>(date.year())) + two(static_cast<unsigned>(date.month())) +
         two(static_cast<unsigned>(date.day()));
}

net::HttpClientOptions client_options(const PluginConfig& config) {
  net::HttpClientOptions options;
  options.user_agent = "basalt-datasource-plugin";
  options.connections_max = config.calls_max;
  options.tls.insecure_skip_verify = config.tls.insecure_skip_verify;
  options.tls.ca_file = config.tls.ca_file;
  options.tls.certificate_file = config.tls.certificate_file;
  options.tls.key_file = config.tls.key_file;
  return options;
}

// What plugins that ask over HTTP share.
class HttpAsker {
 public:
  HttpAsker(rt::Runtime& runtime, PluginConfig config, std::unique_ptr<net::HttpClient> http)
      : runtime_(runtime), config_(std::move(config)), http_(std::move(http)) {}

  Result<net::HttpResponse> get(const std::string& path, bool is_signed, const rt::StopToken& stop) {
    net::HttpRequest request;
    request.url = config_.base_url + path;
    request.headers = {{"Accept", "application/json"}};
    request.timeout = config_.retry.timeout;
    request.response_bytes_max = kAnswerBytesMax;
    const Credentials& known = config_.credentials;
    switch (known.kind) {
      case AuthKind::None:
        break;
      case AuthKind::Basic:
        request.headers.emplace_back("Authorization",
                                     "Basic " + base::base64_encode(known.username + ":" + known.password));
        break;
      case AuthKind::Bearer:
        request.headers.emplace_back("Authorization", "Bearer " + known.token);
        break;
      case AuthKind::ApiKey:
        request.headers.emplace_back(known.header, known.api_key);
        break;
      case AuthKind::AmoroSignature:
        if (is_signed)
          request.url += "?apiKey=" + net::percent_encode(known.api_key) +
                         "&signature=" + amoro_signature(known.api_key, known.secret, {}, date_of(runtime_.wall_now()));
        break;
    }
    return http_->call(request, stop);
  }

  // The clusters of a location.
  [[nodiscard]] Resolution mapped(const TableAnswer& answer) const {
    Resolution resolution;
    resolution.kind = answer.kind;
    resolution.message = answer.message;
    resolution.retry_after = answer.retry_after;
    if (answer.kind != ResolutionKind::Found) return resolution;
    resolution.clusters = config_.mapping.clusters_of(answer.location);
    if (resolution.clusters.empty()) {
      resolution.kind = ResolutionKind::NoMapping;
      resolution.message = "locationMapping has no clusters for data at " + shown_location(answer.location);
    }
    return resolution;
  }

  [[nodiscard]] const PluginConfig& config() const { return config_; }

 private:
  rt::Runtime& runtime_;
  PluginConfig config_;
  std::unique_ptr<net::HttpClient> http_;
};

Resolution invalid_name(const Error& error) { return {ResolutionKind::InvalidName, {}, error.message, {}}; }

// "." and ".." would be paths, not names.
Done check_segments(std::initializer_list<std::string_view> segments) {
  for (const std::string_view segment : segments) {
    if (segment == "." || segment == "..")
      return Error::invalid_input("the part " + base::quote(segment) + " of the name is no name");
  }
  return Ok{};
}

class AmoroPlugin final : public DataSourcePlugin {
 public:
  explicit AmoroPlugin(HttpAsker asker) : asker_(std::move(asker)) {}

  Resolution locate(const DataIdentity& identity, const rt::StopToken& stop) override {
    const auto name = parse_table_name(identity.name);
    if (!name.ok()) return invalid_name(name.error());
    if (Done clean = check_segments({name->catalog, name->database, name->table}); !clean.ok())
      return invalid_name(clean.error());
    if (asker_.config().api == "dashboard") return asker_.mapped(ask_dashboard(*name, stop));
    const TableAnswer answer = read_iceberg_answer(
        asker_.get("/api/iceberg/rest/v1/catalogs/" + net::percent_encode(name->catalog) + "/namespaces/" +
                       net::percent_encode(name->database) + "/tables/" + net::percent_encode(name->table),
                   false, stop));
    if (answer.kind == ResolutionKind::Unsupported && asker_.config().falls_back_to_dashboard)
      return asker_.mapped(ask_dashboard(*name, stop));
    return asker_.mapped(answer);
  }

 private:
  TableAnswer ask_dashboard(const TableName& name, const rt::StopToken& stop) {
    return read_dashboard_answer(asker_.get("/api/ams/v1/tables/catalogs/" + net::percent_encode(name.catalog) +
                                                "/dbs/" + net::percent_encode(name.database) + "/tables/" +
                                                net::percent_encode(name.table) + "/details",
                                            true, stop));
  }

  HttpAsker asker_;
};

// Any server of the Iceberg REST protocol. With a warehouse the catalog says under which prefix its tables are, and the
// name is "namespace.table" with any number of levels before the table; without, it is "database.table" or
// "prefix.database.table".
class IcebergPlugin final : public DataSourcePlugin {
 public:
  explicit IcebergPlugin(HttpAsker asker) : asker_(std::move(asker)) {}

  Resolution locate(const DataIdentity& identity, const rt::StopToken& stop) override {
    std::vector<std::string_view> parts = base::split(identity.name, '.');
    const bool has_warehouse = !asker_.config().warehouse.empty();
    const bool is_whole = parts.size() >= 2 && (has_warehouse || parts.size() <= 3) &&
                          std::ranges::none_of(parts, [](std::string_view part) { return part.empty(); });
    if (!is_whole)
      return invalid_name(Error::invalid_input(
          "the name " + base::quote(identity.name) +
          (has_warehouse ? " is not namespace.table" : " is neither database.table nor prefix.database.table")));
    std::string path = "/v1";
    if (has_warehouse) {
      const TableAnswer prefix = ask_prefix(stop);
      if (prefix.kind != ResolutionKind::Found) return asker_.mapped(prefix);
      for (const std::string_view segment : base::split(prefix.location, '/')) {
        if (!segment.empty()) path += "/" + net::percent_encode(segment);
      }
    } else if (parts.size() == 3) {
      path += "/" + net::percent_encode(parts.front());
      parts.erase(parts.begin());
    }
    const std::string table = net::percent_encode(parts.back());
    parts.pop_back();
    path += "/namespaces/" + net::percent_encode(base::join(parts, kLevel)) + "/tables/" + table;
    return asker_.mapped(read_iceberg_answer(asker_.get(path, false, stop)));
  }

 private:
  static constexpr std::string_view kLevel = "\x1f";  // between the levels of a namespace, says the protocol

  // Asked once: a changed configuration makes another plugin.
  TableAnswer ask_prefix(const rt::StopToken& stop) {
    {
      rt::MutexLock lock(mutex_);
      if (prefix_) return {ResolutionKind::Found, *prefix_, "", {}};
    }
    TableAnswer answer = read_catalog_config(
        asker_.get("/v1/config?warehouse=" + net::percent_encode(asker_.config().warehouse), false, stop));
    if (answer.kind != ResolutionKind::Found) return answer;
    if (Done clean = check_path(answer.location); !clean.ok())
      return {ResolutionKind::Malformed, "", "the catalog's prefix is no path", {}};
    rt::MutexLock lock(mutex_);
    prefix_ = answer.location;
    return answer;
  }
  static Done check_path(std::string_view path) {
    for (const std::string_view segment : base::split(path, '/')) BASALT_TRY_DONE(check_segments({segment}));
    return Ok{};
  }

  HttpAsker asker_;
  rt::Mutex mutex_;
  std::optional<std::string> prefix_ BASALT_GUARDED_BY(mutex_);
};

// A list of names in the configuration itself.
class StaticPlugin final : public DataSourcePlugin {
 public:
  explicit StaticPlugin(PluginConfig config) : config_(std::move(config)) {}

  Resolution locate(const DataIdentity& identity, const rt::StopToken&) override {
    const auto found = config_.tables.find(identity.name);
    if (found == config_.tables.end())
      return {ResolutionKind::NotFound, {}, "the configuration names no " + base::quote(identity.name), {}};
    if (found->second.empty())
      return {
          ResolutionKind::NoMapping, {}, "the configuration names no cluster for " + base::quote(identity.name), {}};
    return {ResolutionKind::Found, found->second, "", {}};
  }

 private:
  PluginConfig config_;
};

template <class Plugin>
Result<std::unique_ptr<DataSourcePlugin>> make_http_plugin(PluginContext context) {
  BASALT_TRY(auto http, net::make_http_client(context.runtime, client_options(context.config)));
  return std::unique_ptr<DataSourcePlugin>(
      std::make_unique<Plugin>(HttpAsker(context.runtime, std::move(context.config), std::move(http))));
}

Result<std::unique_ptr<DataSourcePlugin>> make_static_plugin(PluginContext context) {
  return std::unique_ptr<DataSourcePlugin>(std::make_unique<StaticPlugin>(std::move(context.config)));
}

}  // namespace

std::string_view to_string(ResolutionKind kind) {
  switch (kind) {
    case ResolutionKind::Found:
      return "found";
    case ResolutionKind::NotFound:
      return "not found";
    case ResolutionKind::NoMapping:
      return "no mapping";
    case ResolutionKind::InvalidName:
      return "invalid name";
    case ResolutionKind::Malformed:
      return "malformed";
    case ResolutionKind::Misconfigured:
      return "misconfigured";
    case ResolutionKind::Unsupported:
      return "unsupported";
    case ResolutionKind::Denied:
      return "denied";
    case ResolutionKind::Unavailable:
      return "unavailable";
  }
  return "";
}

bool is_worth_a_retry(ResolutionKind kind) { return kind == ResolutionKind::Unavailable; }

const std::vector<PluginFactory>& plugin_factories() {
  static const std::vector<PluginFactory> factories = {{"amoro", &make_http_plugin<AmoroPlugin>},
                                                       {"iceberg", &make_http_plugin<IcebergPlugin>},
                                                       {"static", &make_static_plugin}};
  return factories;
}

}  // namespace basalt::controllers::datadependency
