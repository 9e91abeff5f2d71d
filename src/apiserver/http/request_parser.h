#pragma once

#include "apiserver/http/api_path.h"
#include "base/result.h"
#include "kube/client.h"
#include "net/http_server.h"
#include "net/url.h"

namespace basalt::apiserver {

// From HTTP to the calls of kube::Client. Errors are BadRequest, UnsupportedMediaType or MethodNotAllowed.
[[nodiscard]] Result<kube::Request> parse_call(const net::ServerRequest& http, const ApiPath& path,
                                               const net::Query& query);
[[nodiscard]] Result<kube::ListRequest> parse_list(const ApiPath& path, const net::Query& query);
[[nodiscard]] Result<kube::WatchRequest> parse_watch(const ApiPath& path, const net::Query& query);
// watch=true, watch=1
[[nodiscard]] bool is_watch(const net::Query& query);

}  // namespace basalt::apiserver
