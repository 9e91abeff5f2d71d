#pragma once

#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "kube/client.h"

namespace basalt::apiserver {

// What comes before a connection to something of an object (pods/exec, pods/attach) is made. The API server is one.
class Connections {
 public:
  virtual ~Connections() = default;
  // Asks admission (operation CONNECT) whether the user may, with the options of the connection as the object
  // (PodExecOptions); they name their kind. Returns the object that is connected to. May wait, as admission does.
  virtual Result<json::Value> admit_connection(const kube::Request& request, json::Value options,
                                               const RequestContext& context) = 0;
};

}  // namespace basalt::apiserver
