#include "node/pod_names.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>

#include "api/gen/core_pod.h"
#include "base/hash.h"
#include "base/strings.h"
#include "kube/typed.h"
#include "node/pod_volumes.h"

namespace basalt::node {
namespace {

constexpr std::size_t kHostnameBytesMax = 63;
constexpr rt::Duration kRewriteDelay = std::chrono::milliseconds(20);  // a gang's pods come together: one rewrite

std::optional<std::uint32_t> parse_address(std::string_view text) {
  const auto parts = base::split(text, '.');
  if (parts.size() != 4) return std::nullopt;
  std::uint32_t address = 0;
  for (const std::string_view part : parts) {
    const auto number = base::parse_uint64(part);
    if (!number || *number > 255) return std::nullopt;
    address = address << 8 | static_cast<std::uint32_t>(*number);
  }
  return address;
}

std::string address_text(std::uint32_t address) {
  return std::to_string(address >> 24) + "." + std::to_string(address >> 16 & 255) + "." +
         std::to_string(address >> 8 & 255) + "." + std::to_string(address & 255);
}

// The first and last of each 256 are left out: some programs take them for a network or a broadcast.
bool is_usable(std::uint32_t address) { return (address & 255) != 0 && (address & 255) != 255; }

// In place and not by rename: the file is mounted into namespaces by its inode.
Done rewrite(const std::string& path, std::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
  if (fd < 0) return Error::make(Reason::InternalError, "cannot write the hosts file " + path);
  const ssize_t written = ::pwrite(fd, text.data(), text.size(), 0);
  const bool good = written == static_cast<ssize_t>(text.size()) && ::ftruncate(fd, written) == 0;
  ::close(fd);
  if (!good) return Error::make(Reason::InternalError, "cannot write the hosts file " + path);
  return Ok{};
}

std::string group_of(std::string_view ns, std::string_view subdomain) {
  return std::string(ns) + "/" + std::string(subdomain);
}

void read_members(json::Reader& reader, std::initializer_list<std::pair<std::string_view, std::string*>> wanted) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) {
    std::string* into = nullptr;
    for (const auto& [name, text] : wanted) {
      if (name == key) into = text;
    }
    if (into == nullptr) {
      reader.skip();
    } else if (!reader.consume_null()) {
      reader.read_string(*into);
    }
  }
}

}  // namespace

Result<std::unique_ptr<AddressPool>> AddressPool::make(std::string_view range) {
  const auto parts = base::split_once(range, '/');
  const auto base_address = parts ? parse_address(parts->first) : std::nullopt;
  const auto prefix = parts ? base::parse_uint64(parts->second) : std::nullopt;
  if (!base_address || !prefix || *prefix < 8 || *prefix > 24 || (*base_address >> 24) != 127)
    return Error::invalid_input("address range " + base::quote(range) + " is not within 127.0.0.0/8 with /8 to /24");
  const std::uint32_t count = 1u << (32 - *prefix);
  return std::unique_ptr<AddressPool>(new AddressPool(*base_address & ~(count - 1), count));
}

std::string AddressPool::take(const std::string& uid, std::string_view wanted) {
  rt::MutexLock lock(mutex_);
  if (const auto found = by_uid_.find(uid); found != by_uid_.end()) return address_text(found->second);
  const auto give = [&](std::uint32_t address) BASALT_REQUIRES(mutex_) {
    taken_.insert(address);
    by_uid_[uid] = address;
    return address_text(address);
  };
  if (const auto address = parse_address(wanted); address && *address - base_ < count_ && !taken_.contains(*address))
    return give(*address);
  const std::uint32_t start = base::fnv1a_32(uid) & (count_ - 1);
  for (std::uint32_t i = 0; i < count_; ++i) {
    const std::uint32_t address = base_ + ((start + i) & (count_ - 1));
    if (is_usable(address) && address != (127u << 24 | 1) && !taken_.contains(address)) return give(address);
  }
  return {};
}

void AddressPool::release(const std::string& uid) {
  rt::MutexLock lock(mutex_);
  const auto found = by_uid_.find(uid);
  if (found == by_uid_.end()) return;
  taken_.erase(found->second);
  by_uid_.erase(found);
}

void decode(json::Reader& reader, NamedPod& pod) {
  std::string_view key;
  if (!reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (key == "metadata") {
      read_members(reader, {{"name", &pod.metadata.name},
                            {"namespace", &pod.metadata.namespace_},
                            {"uid", &pod.metadata.uid},
                            {"resourceVersion", &pod.metadata.resource_version}});
    } else if (key == "spec") {
      read_members(reader, {{"hostname", &pod.hostname}, {"subdomain", &pod.subdomain}});
    } else if (key == "status") {
      read_members(reader, {{"podIP", &pod.pod_ip}});
    } else {
      reader.skip();
    }
  }
}

std::string hostname_of(const api::core::Pod& pod) {
  std::string name = pod.spec.hostname.empty() ? pod.metadata.name : pod.spec.hostname;
  if (name.size() > kHostnameBytesMax) name.resize(kHostnameBytesMax);
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  return name;
}

PodNames::PodNames(rt::Runtime& runtime, kube::Client& client, Logger log, std::string folder)
    : folder_(std::move(folder)),
      host_lines_(read_file("/etc/hosts").value_or("127.0.0.1 localhost\n")),
      pods_(runtime, client, std::move(log),
            {.reflector = {.resource = kube::resource_of<api::core::Pod>()},
             .indexes = {{"group",
                          [](const NamedPod& pod, std::vector<std::string>& values) {
                            if (!pod.subdomain.empty() && !pod.pod_ip.empty())
                              values.push_back(group_of(pod.metadata.namespace_, pod.subdomain));
                          }}}}),
      queue_(runtime, {.name = "hosts"}) {
  pods_.add_handler([this](const kube::Change<NamedPod>& change) {
    const NamedPod& pod = change.object();
    if (pod.subdomain.empty()) return;
    if (change.is_updated() && change.before->pod_ip == change.after->pod_ip) return;
    const std::string group = group_of(pod.metadata.namespace_, pod.subdomain);
    {
      rt::MutexLock lock(mutex_);
      if (!local_.contains(group)) return;
    }
    queue_.add_after(group, kRewriteDelay);
  });
  worker_ = std::make_unique<rt::Workers<GroupKey>>(runtime, queue_, rt::WorkersOptions{.name = "hosts", .count = 1},
                                                    [this](const GroupKey& group, const rt::StopToken&) {
                                                      const Done done = write_group(group);
                                                      return done.ok() ? rt::Outcome::done()
                                                                       : rt::Outcome::failed(done.error());
                                                    });
}

PodNames::~PodNames() = default;

void PodNames::start() { pods_.start(); }

void PodNames::stop() {
  pods_.stop();
  worker_->stop();
}

std::string PodNames::group_path(const GroupKey& group) const {
  return folder_ + "/" + base::replace_all(group, "/", "_");
}

std::string PodNames::group_text(const GroupKey& group) {
  std::map<std::string, Entry> entries;  // by UID
  for (const auto& pod : pods_.by_index("group", group)) {
    entries[pod->metadata.uid] = {pod->metadata.name, pod->hostname.empty() ? pod->metadata.name : pod->hostname,
                                  pod->pod_ip};
  }
  {
    rt::MutexLock lock(mutex_);
    const auto found = local_.find(group);
    if (found != local_.end()) {
      for (const auto& [uid, entry] : found->second) entries[uid] = entry;
    }
  }
  std::map<std::string, const Entry*> sorted;
  for (const auto& [uid, entry] : entries) sorted[entry.name + "/" + uid] = &entry;
  const auto parts = *base::split_once(group, '/');
  const std::string ns(parts.first);
  const std::string subdomain(parts.second);
  std::string text = host_lines_;
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += "# pods of " + group + "\n";
  for (const auto& [key, entry] : sorted) {
    const std::string full = entry->hostname + "." + subdomain;
    const std::string of_service = subdomain + "." + ns + ".svc";
    text += entry->address + " " + full + "." + ns + ".svc.cluster.local " + full + "." + ns + ".svc " + full + "." +
            ns + " " + full + " " + entry->hostname + " " + of_service + ".cluster.local " + of_service + " " +
            subdomain + "." + ns + " " + subdomain + "\n";
  }
  return text;
}

Done PodNames::write_group(const GroupKey& group) { return rewrite(group_path(group), group_text(group)); }

Result<std::string> PodNames::hosts_file(const api::core::Pod& pod, const std::string& hostname,
                                         const std::string& address) {
  std::string aliases;
  for (const auto& alias : pod.spec.host_aliases) {
    std::string names;
    for (const std::string& name : alias.hostnames) names += " " + name;
    aliases += alias.ip + names + "\n";
  }
  if (pod.spec.subdomain.empty()) {
    const std::string path = folder_ + "/pod_" + pod.metadata.uid;
    BASALT_TRY_DONE(rewrite(path, host_lines_ + "\n" + address + " " + hostname + "\n" + aliases));
    return path;
  }
  const GroupKey group = group_of(pod.metadata.namespace_, pod.spec.subdomain);
  {
    rt::MutexLock lock(mutex_);
    local_[group][pod.metadata.uid] = {pod.metadata.name, hostname, address};
  }
  BASALT_TRY_DONE(write_group(group));
  queue_.add_after(group, kRewriteDelay);  // should the worker have written an older state at the same time
  if (aliases.empty()) return group_path(group);
  // Its own file, as the names are now; later pods of the group do not appear in it.
  const std::string path = folder_ + "/pod_" + pod.metadata.uid;
  BASALT_TRY_DONE(rewrite(path, group_text(group) + aliases));
  return path;
}

void PodNames::forget(const api::core::Pod& pod) {
  std::error_code error;
  std::filesystem::remove(folder_ + "/pod_" + pod.metadata.uid, error);
  if (pod.spec.subdomain.empty()) return;
  const GroupKey group = group_of(pod.metadata.namespace_, pod.spec.subdomain);
  bool last = false;
  {
    rt::MutexLock lock(mutex_);
    const auto found = local_.find(group);
    if (found == local_.end()) return;
    found->second.erase(pod.metadata.uid);
    last = found->second.empty();
    if (last) local_.erase(found);
  }
  if (last) {
    std::filesystem::remove(group_path(group), error);
  } else {
    queue_.add_after(group, kRewriteDelay);
  }
}

}  // namespace basalt::node
