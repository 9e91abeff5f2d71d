#pragma once

#include <string>
#include <vector>

#include "api/gen/core_pod.h"
#include "base/result.h"
#include "node/pod_environment.h"
#include "node/process_runner.h"

namespace basalt::node {

struct VolumeFolders {
  std::string pod;        // volumes/<name> of the pod lie below it
  std::string host_root;  // hostPath volumes lie below it; "" = the machine's own root
  std::string claims;     // claims/<namespace>/<name>
};

// Where a volume lies on the host; the folder need not exist yet.
[[nodiscard]] std::string volume_path(const api::core::Pod& pod, const api::core::Volume& volume,
                                      const VolumeFolders& folders);

// Makes the pod's volumes, or brings their files up to date: only what differs is written, each file at once. Errors
// name the volume; NotFound if what it refers to is missing. Limits: files as large as their objects.
[[nodiscard]] Done make_volumes(const api::core::Pod& pod, const PodPlace& place, const VolumeFolders& folders,
                                PodObjects& objects);

// The container's mounts. Also makes `rootfs` + mountPath a link to each volume, for processes that cannot have mounts.
[[nodiscard]] Result<std::vector<BindMount>> container_mounts(const api::core::Pod& pod,
                                                              const api::core::Container& container,
                                                              const Environment& env, const VolumeFolders& folders,
                                                              const std::string& rootfs);

// BASALT_VOLUME_<NAME>, in upper case with _ for everything but letters and digits.
[[nodiscard]] std::string volume_variable(std::string_view name);

// Whether the volumes show something that may change while the pod runs.
[[nodiscard]] bool has_changing_volumes(const api::core::Pod& pod);

// Replaces a file in one step, with these permission bits. Makes its folder.
[[nodiscard]] Done write_file(const std::string& path, std::string_view bytes, unsigned mode);
// Nothing if it cannot be read.
[[nodiscard]] std::optional<std::string> read_file(const std::string& path);

}  // namespace basalt::node
