#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apiserver/registry/api_server.h"
#include "base/result.h"
#include "rt/mutex.h"

namespace basalt::apiserver {

// The OpenAPI documents over HTTP. Each is made when it is asked for and not kept; what is kept is the tag by which a
// client shows that it has the present one, until the types change. Any thread.
class OpenApiEndpoint {
 public:
  struct Answer {
    int status = 200;  // or 304: the client has it
    std::string content_type;
    std::string tag;  // in quotes, as ETag has it
    std::string body;
  };

  explicit OpenApiEndpoint(ApiServer& server) : server_(server) {}

  // By a request's path and its headers of those names. Nothing if the path is no document. JSON unless /openapi/v2 is
  // wanted as protobuf before it; NotAcceptable if neither is taken.
  Result<std::optional<Answer>> answer(std::string_view path, std::string_view accept, std::string_view if_none_match);

 private:
  std::string known_tag(const std::shared_ptr<const TypeTable>& types, const std::string& document);
  void keep_tag(const std::shared_ptr<const TypeTable>& types, const std::string& document, const std::string& tag);

  ApiServer& server_;
  rt::Mutex mutex_;
  std::shared_ptr<const TypeTable> tagged_types_ BASALT_GUARDED_BY(mutex_);
  std::map<std::string, std::string> tags_ BASALT_GUARDED_BY(mutex_);  // one per document and form that exists
};

}  // namespace basalt::apiserver
