#include "controllers/manager/controller_manager.h"

#include <utility>

#include "base/strings.h"
#include "controllers/manager/registry.h"

namespace basalt::controllers {
namespace {

constexpr std::string_view kComponent = "vc-controller-manager";

kube::EventRecorder::Options recorder_options(kube::Metrics& metrics) {
  kube::EventRecorder::Options options;
  options.component = kComponent;
  options.metrics = &metrics;
  return options;
}

}  // namespace

ControllerManager::ControllerManager(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics& metrics,
                                     ManagerOptions options)
    : runtime_(runtime),
      client_(client),
      log_(std::move(log)),
      metrics_(metrics),
      options_(std::move(options)),
      events_(std::make_unique<kube::EventRecorder>(runtime, client, log_, recorder_options(metrics))),
      informers_(std::make_unique<SharedInformers>(runtime, client, log_, &metrics)) {
  context_ =
      std::make_unique<ControllerContext>(ControllerContext{runtime_, client_, log_, *events_, metrics_, *informers_});
  for (const RegisteredController& registered : registered_controllers()) {
    if (registered.only_if_named && !is_named(options_.controllers, registered.name)) continue;
    if (!is_selected(options_.controllers, registered.name)) continue;
    if (auto controller = registered.make(*context_, options_)) controllers_.push_back(std::move(controller));
  }
}

ControllerManager::~ControllerManager() = default;

Done ControllerManager::start(const rt::StopToken& stop) {
  started_ = true;
  events_->start();
  informers_->start();
  if (!informers_->wait_synced(stop))
    return Error::make(Reason::Cancelled, "stopped before the caches were filled: " + waiting_for());
  for (const auto& controller : controllers_) controller->start();
  log_.info("controllers started", {{"controllers", base::join(names(), ",")}});
  is_ready_.store(true, std::memory_order_release);
  return Ok{};
}

void ControllerManager::stop() {
  if (!started_) return;
  started_ = false;
  is_ready_.store(false, std::memory_order_release);
  for (const auto& controller : controllers_) controller->stop();
  informers_->stop();
  events_->stop();
}

std::string ControllerManager::waiting_for() const { return base::join(informers_->unsynced(), ", "); }

std::vector<std::string> ControllerManager::names() const {
  std::vector<std::string> names;
  for (const auto& controller : controllers_) names.emplace_back(controller->name());
  return names;
}

}  // namespace basalt::controllers
