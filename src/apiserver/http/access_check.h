#pragma once

#include <optional>

#include "apiserver/http/api_path.h"
#include "apiserver/registry/api_server.h"
#include "base/result.h"
#include "net/http_server.h"
#include "net/url.h"

namespace basalt::apiserver {

// What a request asks to do, as roles name it. Without a path to a resource it is about the URL itself.
[[nodiscard]] AccessRequest access_of(const net::ServerRequest& request, const std::optional<ApiPath>& path,
                                      const net::Query& query, const UserInfo& user);

// Forbidden unless the user may.
[[nodiscard]] Done check_access(const ApiServer& server, const AccessRequest& access);

// The user that the request is to be carried out as (Impersonate-User, -Uid, -Group), if whoever sends it may do that.
[[nodiscard]] Result<UserInfo> acting_user(const ApiServer& server, const net::ServerRequest& request, UserInfo user);

}  // namespace basalt::apiserver
