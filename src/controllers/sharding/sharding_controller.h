#pragma once

#include <memory>

#include "controllers/common/controller.h"
#include "controllers/sharding/options.h"

namespace basalt::controllers::sharding {

// The name is "sharding-controller". See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_sharding_controller(ControllerContext& context,
                                                                   ShardingOptions options = {});

}  // namespace basalt::controllers::sharding
