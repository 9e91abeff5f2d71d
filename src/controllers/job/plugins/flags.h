#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace basalt::controllers::job {

// Reads the arguments of a plugin as Go's flag package does: "--name=value", "-name=value", "--name value", and a bare
// "--name" for a boolean. "--" and the first argument that is no flag end the flags. One thread; the targets outlive
// it.
class Flags {
 public:
  explicit Flags(std::string_view plugin) : plugin_(plugin) {}

  // What a target holds before parse() is its default.
  void text(std::string_view name, std::string& target) { flags_.push_back({name, &target}); }
  void boolean(std::string_view name, bool& target) { flags_.push_back({name, &target}); }
  void integer(std::string_view name, std::int64_t& target, std::int64_t min, std::int64_t max) {
    flags_.push_back({name, &target, min, max});
  }
  void port(std::string_view name, std::int64_t& target) { integer(name, target, 1, 65535); }

  // Differs: Go sets a number that is malformed to 0; here it keeps its default. A number out of its range keeps its
  // default, too, and reading goes on behind it. What was not taken is told in `warnings`.
  void parse(const std::vector<std::string>& arguments, std::vector<std::string>& warnings) const;

 private:
  struct Flag {
    std::string_view name;
    std::variant<std::string*, bool*, std::int64_t*> target;
    std::int64_t min = 0;
    std::int64_t max = 0;
  };
  enum class Taken : std::uint8_t { Yes, OutOfRange, Malformed };
  [[nodiscard]] const Flag* find(std::string_view name) const;
  [[nodiscard]] static Taken set(const Flag& flag, std::string_view value);
  [[nodiscard]] std::string known() const;

  std::string_view plugin_;
  std::vector<Flag> flags_;
};

}  // namespace basalt::controllers::job
