#include "cli/run/run_local.h"

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <utility>

#include "base/log.h"
#include "cli/up/local_cluster.h"

namespace basalt::cli {
namespace {

class TemporaryCluster final : public RunLocal {
 public:
  TemporaryCluster(rt::Runtime& runtime, std::string folder)
      : folder_(std::move(folder)),
        cluster_(runtime, Logger(make_stderr_sink(LogFormat::Text), LogLevel::Error), options(folder_)) {}
  ~TemporaryCluster() override {
    cluster_.stop();
    std::error_code ignored;  // what cannot be removed is left to the system's own cleaning
    std::filesystem::remove_all(folder_, ignored);
  }

  Done start() { return cluster_.start(rt::StopToken()); }
  [[nodiscard]] std::string kubeconfig_path() const override { return cluster_.kubeconfig_path(); }

 private:
  static LocalClusterOptions options(const std::string& folder) {
    LocalClusterOptions options;
    options.data_dir = folder;
    options.durability = "memory";
    return options;
  }

  const std::string folder_;
  LocalCluster cluster_;
};

}  // namespace

Result<std::unique_ptr<RunLocal>> start_run_local(rt::Runtime& runtime, std::ostream& err) {
  std::error_code code;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(code);
  if (code) return Error::make(Reason::InternalError, "there is no folder for temporary files: " + code.message());
  std::string folder = (parent / "basalt-run-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr)
    return Error::make(Reason::InternalError, "cannot make a folder in " + parent.string());
  err << "Starting a cluster for this run; 'basalt up' starts one that stays.\n";
  auto cluster = std::make_unique<TemporaryCluster>(runtime, std::move(folder));
  BASALT_TRY_DONE(cluster->start());
  return std::unique_ptr<RunLocal>(std::move(cluster));
}

}  // namespace basalt::cli
