#include "controllers/manager/registry.h"

namespace basalt::controllers {

std::span<const RegisteredController> registered_controllers() { return {}; }

}  // namespace basalt::controllers
