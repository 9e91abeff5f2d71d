#pragma once

#include <memory>
#include <string>

#include "apiserver/registry/admission.h"
#include "apiserver/registry/api_server.h"
#include "base/result.h"
#include "rt/runtime.h"
#include "webhooks/rule_context.h"

namespace basalt::admission {

// The webhooks' rules as a hook of this server. Add it after open() and before start(); the server outlives it.
[[nodiscard]] std::shared_ptr<apiserver::AdmissionHook> make_admission_hook(rt::Runtime& runtime,
                                                                            apiserver::ApiServer& server,
                                                                            webhooks::RuleOptions options);
// With resource groups for pods, the content of `--admission-conf`. InvalidInput if that cannot be read.
[[nodiscard]] Result<std::shared_ptr<apiserver::AdmissionHook>> make_admission_hook(rt::Runtime& runtime,
                                                                                    apiserver::ApiServer& server,
                                                                                    webhooks::RuleOptions options,
                                                                                    const std::string& resource_groups);

}  // namespace basalt::admission
