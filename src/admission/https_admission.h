#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apiserver/registry/admission.h"
#include "base/result.h"
#include "rt/runtime.h"
#include "webhooks/review.h"

namespace basalt::admission {

struct HttpsAdmissionOptions {
  std::string url;          // of the admission server: "https://127.0.0.1:8443"
  std::string ca_pem;       // its authority
  std::string server_name;  // the name in its certificate, if it is not the URL's
  std::vector<const webhooks::Hook*> hooks;
  rt::Duration timeout = std::chrono::seconds(5);
};

// Sends the writes of an embedded API server to an admission server, as a real one does, so that tests see the whole
// way: review, HTTPS, answer, patch. Waits on the writer's thread, so it is for tests and for real time. A server that
// does not answer refuses the write with a transient error (failure policy Fail).
[[nodiscard]] Result<std::shared_ptr<apiserver::AdmissionHook>> make_https_admission(rt::Runtime& runtime,
                                                                                     HttpsAdmissionOptions options);

}  // namespace basalt::admission
