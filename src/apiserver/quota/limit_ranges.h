#pragma once

#include <memory>

#include "apiserver/registry/admission.h"
#include "apiserver/store/store.h"

namespace basalt::apiserver {

// The LimitRanges of a namespace: containers of new pods get their default requests and limits; pods and claims outside
// a minimum, a maximum or a ratio are refused, with every complaint in one message.
[[nodiscard]] std::shared_ptr<AdmissionHook> limit_range_admission(Store& store);

}  // namespace basalt::apiserver
