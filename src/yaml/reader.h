#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

// YAML to json::Value, with the meaning that Kubernetes gives it: YAML 1.1 scalars (yes, on and 010 are no strings),
// merge keys, keys that are no strings turned into strings. Text that is JSON is read as JSON.
//
// Every error names line and column, counted from 1. Pure functions; any thread.
//
// Differs: duplicate keys are errors (Kubernetes: the last one wins unless strict). A key written out wins over one
// that a merge key brings, wherever it stands (go-yaml v2: the later one). Integers beyond int64 become doubles.
// !!binary is refused. A second document where one is expected is an error (go-yaml ignores it).
namespace basalt::yaml {

struct ReadOptions {
  std::size_t size_bytes_max = 4 << 20;  // an API server takes requests of 3 MiB
  int depth_max = 256;                   // as json::Reader
  std::size_t documents_max = 10'000;    // of read_all
  std::size_t alias_nodes_max =
      1'000'000;  // made by aliases in all; also at most ten per byte of input (see reader.cc)
};

struct Document {
  json::Value value;
  std::size_t line = 1;  // where its content begins
};

// One document. An empty text, or one of comments only, is null.
[[nodiscard]] Result<json::Value> read(std::string_view text, const ReadOptions& options = {});

// All documents between `---` lines, without those that hold nothing (null), as kubectl takes a file. JSON texts may
// follow one another without a separator.
[[nodiscard]] Result<std::vector<Document>> read_all(std::string_view text, const ReadOptions& options = {});

}  // namespace basalt::yaml
