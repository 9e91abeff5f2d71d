#include "apiserver/http/access_check.h"

#include <utility>

#include "apiserver/http/request_parser.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kAccountPrefix = "system:serviceaccount:";

std::string verb_of(const net::ServerRequest& request, const ApiPath& path, const net::Query& query) {
  if (request.method == "POST") return "create";
  if (request.method == "PUT") return "update";
  if (request.method == "PATCH") return "patch";
  if (request.method == "DELETE") return path.name.empty() ? "deletecollection" : "delete";
  if (is_watch(query)) return "watch";
  return path.name.empty() ? "list" : "get";
}

AccessRequest impersonation(const UserInfo& user, std::string_view resource, std::string_view name) {
  AccessRequest access;
  access.user = user;
  access.verb = "impersonate";
  access.resource = resource;
  access.name = name;
  return access;
}

}  // namespace

AccessRequest access_of(const net::ServerRequest& request, const std::optional<ApiPath>& path, const net::Query& query,
                        const UserInfo& user) {
  AccessRequest access;
  access.user = user;
  if (!path) {
    access.verb = base::to_lower_ascii(request.method);
    access.path = request.path;
    return access;
  }
  access.verb = verb_of(request, *path, query);
  access.group = path->group;
  access.version = path->version;
  access.resource = path->plural;
  access.subresource = path->subresource;
  access.ns = path->ns;
  access.name = path->name;
  // A namespace is where it is itself.
  if (path->group.empty() && path->plural == "namespaces") access.ns = path->name;
  return access;
}

Done check_access(const ApiServer& server, const AccessRequest& access) {
  if (server.authorize(access).allowed) return Ok{};
  if (!access.path.empty()) return Error::make(Reason::Forbidden, "forbidden: " + access.refusal());
  const std::string whole = access.group.empty() ? access.resource : access.resource + "." + access.group;
  Error error = Error::make(Reason::Forbidden, whole + (access.name.empty() ? "" : " " + base::quote(access.name)) +
                                                   " is forbidden: " + access.refusal());
  error.subject = {access.name, access.group, access.resource, ""};
  return error;
}

Result<UserInfo> acting_user(const ApiServer& server, const net::ServerRequest& request, UserInfo user) {
  const std::string_view name = net::find_header(request.headers, "impersonate-user");
  std::vector<std::string> groups;
  for (const auto& [key, value] : request.headers) {
    if (base::equals_ignore_case_ascii(key, "impersonate-group")) groups.push_back(value);
  }
  const std::string_view uid = net::find_header(request.headers, "impersonate-uid");
  if (name.empty() && groups.empty() && uid.empty()) return user;
  if (name.empty())
    return Error::make(Reason::BadRequest, "requested " + std::to_string(groups.size()) +
                                               " groups to impersonate without impersonating a user");
  UserInfo acting;
  acting.name = name;
  acting.uid = uid;
  if (name.starts_with(kAccountPrefix)) {
    const auto parts = base::split(name.substr(kAccountPrefix.size()), ':');
    const std::string ns(parts[0]);
    AccessRequest access = impersonation(user, "serviceaccounts", parts.size() > 1 ? parts[1] : "");
    access.ns = ns;
    BASALT_TRY_DONE(check_access(server, access));
    if (groups.empty()) groups = {"system:serviceaccounts", "system:serviceaccounts:" + ns};
  } else {
    BASALT_TRY_DONE(check_access(server, impersonation(user, "users", name)));
  }
  for (const std::string& group : groups) BASALT_TRY_DONE(check_access(server, impersonation(user, "groups", group)));
  if (!uid.empty()) {
    AccessRequest access = impersonation(user, "uids", uid);
    access.group = "authentication.k8s.io";
    BASALT_TRY_DONE(check_access(server, access));
  }
  acting.groups = std::move(groups);
  if (name != "system:anonymous") acting.groups.emplace_back("system:authenticated");
  return acting;
}

}  // namespace basalt::apiserver
