#include "rt/internal/sim_fiber.h"

#include <fmt/format.h>

#include "rt/internal/place.h"

namespace basalt::rt::internal {
namespace {

std::string state_text(const SimFiber& fiber) {
  switch (fiber.state) {
    case SimFiber::State::Runnable:
      return "runnable";
    case SimFiber::State::Running:
      return "running, last waited";
    case SimFiber::State::Sleeping:
      return "sleeping";
    case SimFiber::State::Waiting:
      return "waiting";
    case SimFiber::State::Joining:
      return fmt::format("joining {}", fiber.joined->name);
    case SimFiber::State::Settling:
      return "settling";
    case SimFiber::State::Ended:
      return "ended";
    case SimFiber::State::Abandoned:
      return "abandoned";
  }
  return "";
}

}  // namespace

std::string describe(const SimFiber& fiber) {
  const bool has_place = fiber.place.line() != 0;
  std::string text = fmt::format("{}: {}", fiber.name, state_text(fiber));
  if (has_place) text += " at " + place_text(fiber.place);
  if (fiber.state == SimFiber::State::Waiting || fiber.state == SimFiber::State::Sleeping) {
    using Seconds = std::chrono::duration<double>;
    text += fiber.deadline == kNever
                ? std::string(", no deadline")
                : fmt::format(", deadline {:.6f}s", Seconds(fiber.deadline.time_since_epoch()).count());
  }
  return text;
}

}  // namespace basalt::rt::internal
