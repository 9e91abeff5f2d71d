#include "cli/client/pod_logs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/gen/core_container.h"
#include "api/gen/core_pod.h"
#include "api/time.h"
#include "base/strings.h"
#include "cli/client/objects.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kLimitBytesMax = 64u << 20;
constexpr std::array kPrefixColours = {Colour::Cyan, Colour::Green, Colour::Yellow, Colour::Magenta, Colour::Blue};

std::string query_escaped(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : text) {
    if (base::is_alphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += '%';
      escaped += kDigits[byte >> 4];
      escaped += kDigits[byte & 15];
    }
  }
  return escaped;
}

}  // namespace

std::string sortable_time(std::string_view rfc3339) {
  const auto time = api::Time::parse(rfc3339);
  if (!time.ok() || time->is_zero()) return "";
  std::string fraction;
  if (const auto dot = rfc3339.find('.'); dot != std::string_view::npos) {
    for (std::size_t i = dot + 1; i < rfc3339.size() && base::is_digit(rfc3339[i]); ++i) fraction += rfc3339[i];
  }
  fraction.resize(9, '0');
  std::string key = time->to_string();
  key.pop_back();  // the Z
  return key + "." + fraction;
}

ContainerLog::ContainerLog(std::string ns, std::string pod, std::string container, Options options)
    : ns_(std::move(ns)), pod_(std::move(pod)), container_(std::move(container)), options_(std::move(options)) {}

std::string ContainerLog::path() const {
  std::string path = "/api/v1/namespaces/" + ns_ + "/pods/" + pod_ + "/log?container=" + query_escaped(container_);
  if (options_.previous) path += "&previous=true";
  if (!has_times_) return path;
  path += "&timestamps=true&limitBytes=" + std::to_string(limit_bytes_);
  if (!last_time_.empty()) {
    const auto time = api::Time::parse(last_time_);
    if (time.ok()) path += "&sinceTime=" + query_escaped(time->to_string());
    return path;
  }
  if (options_.tail_lines) path += "&tailLines=" + std::to_string(*options_.tail_lines);
  if (options_.since_seconds) path += "&sinceSeconds=" + std::to_string(*options_.since_seconds);
  return path;
}

Result<std::vector<std::string>> ContainerLog::poll(Session& session, bool is_over, const rt::StopToken& stop) {
  BASALT_TRY(std::string body, session.raw.get(path(), stop));
  if (!has_polled_ && !body.empty() && has_times_) {
    const std::string_view first = std::string_view(body).substr(0, body.find_first_of(" \n"));
    if (sortable_time(first).empty()) has_times_ = false;
  }
  has_polled_ = has_polled_ || !body.empty();
  const bool is_cut = has_times_ && body.size() >= limit_bytes_;
  std::vector<std::string> lines = take_new_lines(body, is_over && !is_cut);
  // More than the limit within one second: asking again would give the same bytes.
  if (is_cut && lines.empty()) limit_bytes_ = std::min(limit_bytes_ * 2, kLimitBytesMax);
  return lines;
}

std::vector<std::string> ContainerLog::take_new_lines(std::string_view body, bool is_over) {
  if (!is_over) body = body.substr(0, body.rfind('\n') == std::string_view::npos ? 0 : body.rfind('\n') + 1);
  std::vector<std::string> fresh;
  if (!has_times_) {
    if (body.size() <= bytes_seen_) return fresh;
    for (const std::string_view line : base::split_lines(body.substr(bytes_seen_))) fresh.emplace_back(line);
    bytes_seen_ = body.size();
    return fresh;
  }
  std::size_t at_last = 0;  // lines of this answer with the time of the last line seen
  const std::string seen_key = last_key_;
  const std::size_t seen_count = lines_at_last_;
  for (const std::string_view line : base::split_lines(body)) {
    const auto blank = line.find(' ');
    const std::string_view time = line.substr(0, blank);
    const std::string key = sortable_time(time);
    const std::string_view text = blank == std::string_view::npos ? std::string_view() : line.substr(blank + 1);
    if (!key.empty() && key < seen_key) continue;
    if (!key.empty() && key == seen_key && ++at_last <= seen_count) continue;
    fresh.emplace_back(options_.shows_times || key.empty() ? line : text);
    if (key.empty()) continue;
    lines_at_last_ = key == last_key_ ? lines_at_last_ + 1 : 1;
    last_key_ = key;
    last_time_ = time;
  }
  return fresh;
}

std::string format_log_line(const Terminal& terminal, const LogLine& line, std::size_t prefix_width) {
  const Colour colour = kPrefixColours[line.index % kPrefixColours.size()];
  // A program's own colours may pass to a terminal; what moves the cursor may not spoil the display, so only there.
  return paint(terminal, colour, pad(line.prefix, prefix_width) + " |") + " " + line.text;
}

PodSetLogs::PodSetLogs(Session& session, std::string ns, Options options)
    : session_(session), ns_(std::move(ns)), options_(std::move(options)) {}

Result<std::vector<LogLine>> PodSetLogs::poll(bool is_over, const rt::StopToken& stop) {
  ListOptions list{.ns = ns_, .label_selector = options_.label_selector};
  if (!options_.pod.empty()) list.field_selector = "metadata.name=" + options_.pod;
  BASALT_TRY(auto pods, list_objects<api::core::Pod>(session_, list));
  std::sort(pods.begin(), pods.end(),
            [](const auto& a, const auto& b) { return a.object.metadata.name < b.object.metadata.name; });
  std::vector<LogLine> lines;
  open_ = 0;
  pods_left_out_ = 0;
  for (const auto& [pod, bytes] : pods) {
    const std::string& name = pod.metadata.name;
    if (!index_of_pod_.contains(name) && index_of_pod_.size() >= options_.pods_max) {
      ++pods_left_out_;
      continue;
    }
    const std::size_t index = index_of_pod_.try_emplace(name, index_of_pod_.size()).first->second;
    const bool pod_ended =
        pod.status.phase == api::core::pod_phase::kSucceeded || pod.status.phase == api::core::pod_phase::kFailed;
    if (!pod_ended) ++open_;
    std::vector<const api::core::ContainerStatus*> containers;
    for (const auto& status : pod.status.init_container_statuses) containers.push_back(&status);
    for (const auto& status : pod.status.container_statuses) containers.push_back(&status);
    for (const auto* status : containers) {
      if (!options_.container.empty() && status->name != options_.container) continue;
      if (!status->state.running && !status->state.terminated && !options_.log.previous) continue;
      const std::string key = pod.metadata.uid + "/" + status->name + "/" + std::to_string(status->restart_count);
      auto found = followed_.find(key);
      if (found == followed_.end()) {
        std::string prefix = name.starts_with(options_.strip) ? name.substr(options_.strip.size()) : name;
        if (containers.size() > 1 && options_.container.empty()) prefix += "/" + status->name;
        prefix_width_ = std::max(prefix_width_, display_width(prefix));
        found = followed_
                    .emplace(key, Followed{ContainerLog(ns_, name, status->name, options_.log), std::move(prefix),
                                           index, false})
                    .first;
      }
      Followed& followed = found->second;
      if (followed.is_done) continue;
      const bool has_ended = status->state.terminated.has_value() || is_over;
      auto fresh = followed.log.poll(session_, has_ended, stop);
      if (!fresh.ok()) {
        // A container that is about to start, or a pod that has just gone, has no log; the others go on.
        if (fresh.error().is(Reason::Cancelled)) return std::move(fresh).error();
        if (has_ended && !fresh.error().is_transient()) followed.is_done = true;
        continue;
      }
      for (std::string& line : *fresh) lines.push_back({followed.prefix, followed.index, std::move(line)});
      followed.is_done = has_ended;
    }
  }
  pods_seen_ = index_of_pod_.size();
  return lines;
}

}  // namespace basalt::cli
