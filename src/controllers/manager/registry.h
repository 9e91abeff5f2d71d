#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "controllers/common/controller.h"
#include "controllers/manager/options.h"

namespace basalt::controllers {

// One controller that this program has.
struct RegisteredController {
  std::string_view name;  // as --controllers knows it
  // Null if the options leave it out.
  std::unique_ptr<Controller> (*make)(ControllerContext& context, const ManagerOptions& options);
  bool only_if_named = false;  // "*" does not mean it
};

[[nodiscard]] std::span<const RegisteredController> registered_controllers();

}  // namespace basalt::controllers
