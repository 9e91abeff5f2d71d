#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "cli/client/host.h"

namespace basalt::cli {

struct ClaimList {
  std::string ns;
  bool all_namespaces = false;
  std::string selector;
  std::string output;
};
// Claims: which data, where it is, which workload follows and where that runs.
[[nodiscard]] Result<int> list_claims(Session& session, const ClaimList& list);

struct ClaimName {
  std::string ns;
  std::string name;
  std::string output;
};
[[nodiscard]] Result<int> view_claim(Session& session, const ClaimName& which);
// Why its workload is where it is or waits, and what helps.
[[nodiscard]] Result<int> explain_claim(Session& session, const ClaimName& which);

struct DataTop {
  std::string output;
  std::int32_t rows_max = 20;  // 0: all
};
// The data that is used most: by whom, and from which clusters.
[[nodiscard]] Result<int> top_data(Session& session, const DataTop& top);

}  // namespace basalt::cli
