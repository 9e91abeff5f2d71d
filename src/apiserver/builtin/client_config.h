#pragma once

#include "apiserver/builtin/fields.h"

namespace basalt::apiserver {

// How a webhook is reached, in the member clientConfig of what names it: a port that is not given is 443.
void default_client_config(json::Value& owner);
// Complains about a clientConfig that nobody could use: neither or both of url and service, no HTTPS, no names, a port
// that is none, an authority that is no PEM.
void check_client_config(const json::Value& owner, const FieldPath& path, Causes& causes);

}  // namespace basalt::apiserver
