#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace basalt::net {

// Certificates and key of one TLS end, from memory or from files that may change while we run (a renewed certificate).
// Used by one thread.
class PemSource {
 public:
  // Of each pair the text wins over the file; all may be empty.
  struct Options {
    std::string authorities_pem;
    std::string authorities_file;
    std::string certificate_pem;
    std::string certificate_file;
    std::string key_pem;
    std::string key_file;
  };
  struct Texts {
    std::string authorities;
    std::string certificate;
    std::string key;
    bool operator==(const Texts&) const = default;
  };

  explicit PemSource(Options options);
  // The first reading: InvalidInput says which file or text is missing or broken.
  [[nodiscard]] Done load();
  // Looks whether a file changed; true if the texts are new. New files that are broken or do not yet fit each other
  // (they are replaced one after the other) leave the old texts in use and are looked at again next time.
  [[nodiscard]] bool refresh();
  [[nodiscard]] const Texts& texts() const { return texts_; }
  // Why the last refresh() kept the old texts although a file changed; "" if it did not.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  // What changes when a file is rewritten or replaced; zeros for an absent one.
  struct Stamp {
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Stamps {
    Stamp authorities;
    Stamp certificate;
    Stamp key;
    bool operator==(const Stamps&) const = default;
  };
  static Stamp stamp_of(const std::string& file);
  [[nodiscard]] Stamps stamps() const;
  [[nodiscard]] Result<Texts> read() const;

  const Options options_;
  Texts texts_;
  Stamps read_at_;
  std::string problem_;
};

}  // namespace basalt::net
