#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "controllers/datadependency/plugins/plugin.h"
#include "net/http_client.h"

// What the answers of metadata services mean. Pure.

namespace basalt::controllers::datadependency {

// An answer about a table: where it lies, or why that is not known.
struct TableAnswer {
  ResolutionKind kind = ResolutionKind::Unavailable;  // Found: `location` is set
  std::string location;
  std::string message;
  rt::Duration retry_after{};
};

// Of the Iceberg REST protocol: GET .../namespaces/{database}/tables/{table}.
[[nodiscard]] TableAnswer read_iceberg_answer(const Result<net::HttpResponse>& answer);
// Of the same: GET .../config. `location` is the prefix of all paths, which may be empty.
[[nodiscard]] TableAnswer read_catalog_config(const Result<net::HttpResponse>& answer);
// Of Amoro's dashboard: HTTP 200 with a code of its own inside.
[[nodiscard]] TableAnswer read_dashboard_answer(const Result<net::HttpResponse>& answer);

// A table's name in its parts: "catalog.database.table". InvalidInput if it is none.
struct TableName {
  std::string catalog;
  std::string database;
  std::string table;
};
[[nodiscard]] Result<TableName> parse_table_name(std::string_view name);

// The signature that Amoro's dashboard asks for. `query` is sorted by key; `date` is yyyyMMdd, used without a query.
[[nodiscard]] std::string amoro_signature(std::string_view api_key, std::string_view secret,
                                          const std::vector<std::pair<std::string, std::string>>& query,
                                          std::string_view date);

}  // namespace basalt::controllers::datadependency
