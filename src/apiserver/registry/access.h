#pragma once

#include <string>

#include "apiserver/registry/admission.h"

namespace basalt::apiserver {

// A question about access: may this user do that?
struct AccessRequest {
  UserInfo user;
  std::string verb;  // get, list, watch, create, update, patch, delete, deletecollection, impersonate, ...
  std::string path;  // of what is no resource: "/healthz"; "" for resources
  std::string group;
  std::string version;
  std::string resource;
  std::string subresource;
  std::string ns;
  std::string name;

  // `User "ann" cannot list resource "pods" in API group "" in the namespace "a"`
  [[nodiscard]] std::string refusal() const;
};

struct AccessDecision {
  bool allowed = false;
  std::string reason;
};

}  // namespace basalt::apiserver
