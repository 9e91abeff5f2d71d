#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controllers/job/plugins/plugin.h"

// One function a plugin: makes it from its arguments; what is not understood is told in `warnings`.
namespace basalt::controllers::job {

using PluginPointer = std::shared_ptr<const JobPlugin>;
using Arguments = std::vector<std::string>;
using Warnings = std::vector<std::string>;

[[nodiscard]] PluginPointer make_env_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_svc_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_ssh_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_mpi_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_tensorflow_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_pytorch_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_ray_plugin(const Arguments& arguments, Warnings& warnings);
[[nodiscard]] PluginPointer make_hcclrank_plugin(const Arguments& arguments, Warnings& warnings);

}  // namespace basalt::controllers::job
