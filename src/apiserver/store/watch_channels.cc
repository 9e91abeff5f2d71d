#include "apiserver/store/watch_channels.h"

#include <algorithm>

#include "base/check.h"

namespace basalt::apiserver {

void Aftermath::carry_out() {
  for (const auto& channel : channels) channel->changed.notify_all();
  for (const auto& callback : callbacks) (*callback)();
  channels.clear();
  callbacks.clear();
  garbage.clear();
}

void WatchChannels::add(Subscriber& subscriber) {
  auto& channel = channels_[subscriber.resource][subscriber.ns];
  if (!channel) channel = std::make_shared<WatchChannel>(runtime_);
  ++channel->subscribers;
  subscriber.channel = channel;
  subscribers_.push_back(&subscriber);
}

void WatchChannels::remove(Subscriber& subscriber) {
  leave_idle(subscriber);
  const auto place = std::find(subscribers_.begin(), subscribers_.end(), &subscriber);
  BASALT_CHECK(place != subscribers_.end());
  *place = subscribers_.back();
  subscribers_.pop_back();
  if (--subscriber.channel->subscribers > 0) return;
  const auto by_namespace = channels_.find(subscriber.resource);
  by_namespace->second.erase(subscriber.ns);
  if (by_namespace->second.empty()) channels_.erase(by_namespace);
}

void WatchChannels::set_idle(Subscriber& subscriber) {
  if (subscriber.is_idle) return;
  subscriber.is_idle = true;
  subscriber.channel->idle.push_back(&subscriber);
}

void WatchChannels::leave_idle(Subscriber& subscriber) {
  if (!subscriber.is_idle) return;
  subscriber.is_idle = false;
  auto& idle = subscriber.channel->idle;
  const auto place = std::find(idle.begin(), idle.end(), &subscriber);
  BASALT_CHECK(place != idle.end());
  *place = idle.back();
  idle.pop_back();
}

void WatchChannels::cancel(Subscriber& subscriber, Aftermath& aftermath) {
  if (subscriber.is_cancelled) return;
  subscriber.is_cancelled = true;
  // All who wait on the channel wake up; those who are not cancelled go on waiting. It is rare.
  aftermath.channels.push_back(subscriber.channel);
  if (subscriber.is_idle && subscriber.on_ready) aftermath.callbacks.push_back(subscriber.on_ready);
}

void WatchChannels::cancel_all(Aftermath& aftermath) {
  for (Subscriber* subscriber : subscribers_) cancel(*subscriber, aftermath);
}

void WatchChannels::announce(const Entry& entry, std::uint64_t sequence, Aftermath& aftermath) {
  const auto by_namespace = channels_.find(entry.resource());
  if (by_namespace == channels_.end()) return;
  const ByNamespace& channels = by_namespace->second;
  if (const auto all = channels.find(std::string_view()); all != channels.end()) {
    rouse(all->second, entry, sequence, aftermath);
    if (channels.size() == 1) return;
  }
  if (entry.ns().empty()) return;
  if (const auto one = channels.find(entry.ns()); one != channels.end()) rouse(one->second, entry, sequence, aftermath);
}

void WatchChannels::rouse(const std::shared_ptr<WatchChannel>& channel, const Entry& entry, std::uint64_t sequence,
                          Aftermath& aftermath) {
  if (channel->idle.empty()) return;
  for (Subscriber* subscriber : channel->idle) {
    subscriber->is_idle = false;
    subscriber->next_sequence = sequence;
    subscriber->returned = entry.mod_revision() - 1;
    if (subscriber->on_ready) aftermath.callbacks.push_back(subscriber->on_ready);
  }
  channel->idle.clear();
  if (channel->waiting > 0) aftermath.channels.push_back(channel);
}

}  // namespace basalt::apiserver
