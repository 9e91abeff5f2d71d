#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/webhook/webhook_table.h"
#include "base/result.h"
#include "json/value.h"
#include "net/http_client.h"
#include "rt/mutex.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::apiserver {

// What a review says of a request, without its objects.
[[nodiscard]] json::Object review_request(const AdmissionRequest& request);

struct WebhookAnswer {
  bool allowed = false;
  int code = 0;
  std::string reason;
  std::string message;
  json::Array patch;
  std::vector<std::string> warnings;
};

// Asks webhooks over HTTPS. Keeps a pool of connections for each authority and server name. Thread-safe.
class WebhookCaller {
 public:
  WebhookCaller(rt::Runtime& runtime, ApiServer& server);

  // Waits for at most the webhook's timeout. Errors say what could not be done; a denial is an answer.
  [[nodiscard]] Result<WebhookAnswer> ask(const Webhook& webhook, const AdmissionRequest& request,
                                          const json::Value* object, const std::string& uid);

  struct Question {
    std::string query;  // of the URL, without '?'; "" for none
    std::string_view body;
    rt::Duration timeout;
    std::size_t answer_bytes_max;
    rt::StopToken stop;
  };
  // The text of a 2xx answer.
  [[nodiscard]] Result<std::string> post(const WebhookEndpoint& endpoint, const Question& question);

 private:
  struct Target {
    std::string url;
    std::string server_name;
  };
  [[nodiscard]] Result<Target> target_of(const WebhookEndpoint& endpoint);
  [[nodiscard]] Result<json::Value> stored(std::string_view plural, const std::string& ns, const std::string& name);
  [[nodiscard]] Result<std::string> pod_address(const json::Value& service, const WebhookEndpoint::Service& wanted);
  [[nodiscard]] Result<std::shared_ptr<net::HttpClient>> client_for(const WebhookEndpoint& endpoint,
                                                                    const std::string& name);

  rt::Runtime& runtime_;
  ApiServer& server_;
  rt::Mutex mutex_;
  std::map<std::string, std::shared_ptr<net::HttpClient>> clients_ BASALT_GUARDED_BY(mutex_);  // authority + name
};

}  // namespace basalt::apiserver
