// What of a job's specification may not change.

#include <algorithm>

#include "webhooks/rules/job_spec.h"

namespace basalt::webhooks {
namespace {

// Members that Go's types leave out when they are zero or false, so that absent and zero are one. Elsewhere zero means
// something (runAsUser: 0, ttlSecondsAfterFinished: 0).
constexpr std::string_view kZeroIsAbsent[] = {"maxRetry",
                                              "minPartitions",
                                              "hostNetwork",
                                              "hostPID",
                                              "hostIPC",
                                              "readOnly",
                                              "stdin",
                                              "stdinOnce",
                                              "tty",
                                              "hostPort",
                                              "initialDelaySeconds",
                                              "timeoutSeconds",
                                              "periodSeconds",
                                              "successThreshold",
                                              "failureThreshold"};

// Maps of quantities, and members that are one.
constexpr std::string_view kAmounts[] = {"requests", "limits", "capacity", "overhead"};
constexpr std::string_view kAmount[] = {"sizeLimit", "divisor", "storage"};

bool is_among(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_empty(const json::Value* value, std::string_view key) {
  if (value == nullptr || value->is_null()) return true;
  if (value->is_string()) return value->as_string().empty();
  if (value->is_array()) return value->as_array().empty();
  if (value->is_object()) return value->as_object().empty();
  if (!is_among(kZeroIsAbsent, key)) return false;
  return value->is_bool() ? !value->as_bool() : value->as_double() == 0;
}

struct Difference {
  std::string path;
  const json::Value* before = nullptr;
  const json::Value* after = nullptr;
};

// The first difference below, in the order of keys. Recursion is bounded by the depth that the reader allows.
class Comparison {
 public:
  bool differs(const json::Value* before, const json::Value* after, std::string_view key, bool is_amount,
               std::string& path) {
    if (is_empty(before, key) && is_empty(after, key)) return false;
    if (before != nullptr && after != nullptr) {
      if (before->is_object() && after->is_object()) return members_differ(*before, *after, key, path);
      if (before->is_array() && after->is_array() && before->as_array().size() == after->as_array().size()) {
        return elements_differ(*before, *after, key, path);
      }
      if (*before == *after) return false;
      if (is_amount || is_among(kAmount, key)) {
        const auto a = quantity_of(*before);
        const auto b = quantity_of(*after);
        if (a.ok() && b.ok() && *a == *b) return false;
      }
    }
    found = {path, before, after};
    return true;
  }

  Difference found;

 private:
  // Both are sorted by key.
  bool members_differ(const json::Value& before, const json::Value& after, std::string_view key, std::string& path) {
    const bool are_amounts = is_among(kAmounts, key);
    auto a = before.as_object().begin();
    auto b = after.as_object().begin();
    const auto a_end = before.as_object().end();
    const auto b_end = after.as_object().end();
    while (a != a_end || b != b_end) {
      const bool take_a = b == b_end || (a != a_end && a->key <= b->key);
      const bool take_b = a == a_end || (b != b_end && b->key <= a->key);
      const std::string& name = take_a ? a->key : b->key;
      const std::size_t size = path.size();
      path.append(".").append(name);
      if (differs(take_a ? &a->value : nullptr, take_b ? &b->value : nullptr, name, are_amounts, path)) return true;
      path.resize(size);
      if (take_a) ++a;
      if (take_b) ++b;
    }
    return false;
  }

  bool elements_differ(const json::Value& before, const json::Value& after, std::string_view key, std::string& path) {
    for (std::size_t i = 0; i < before.as_array().size(); ++i) {
      const std::size_t size = path.size();
      path.append("[").append(std::to_string(i)).append("]");
      if (differs(&before.as_array()[i], &after.as_array()[i], key, false, path)) return true;
      path.resize(size);
    }
    return false;
  }
};

// Without what may change. Copies the levels above; templates are large, yet updates are rare beside creates.
json::Value without_changeable(const json::Value& spec) {
  json::Value copy = spec;
  json::Object& object = copy.as_object();
  object.erase("minAvailable");
  object.erase("priorityClassName");
  if (json::Value* tasks = object.find("tasks"); tasks != nullptr && tasks->is_array()) {
    for (json::Value& task : tasks->as_array()) {
      if (!task.is_object()) continue;
      task.as_object().erase("replicas");
      task.as_object().erase("minAvailable");
    }
  }
  if (json::Value* volumes = object.find("volumes"); volumes != nullptr && volumes->is_array()) {
    for (json::Value& volume : volumes->as_array()) {
      // The controller writes the name of the claim that it made.
      if (volume.is_object() && member(volume, "volumeClaim") != nullptr) volume.as_object().erase("volumeClaimName");
    }
  }
  return copy;
}

}  // namespace

std::optional<std::string> find_forbidden_change(const json::Value& before, const json::Value& after,
                                                 std::string_view path) {
  if (before == after) return std::nullopt;
  const json::Value a = without_changeable(before);
  const json::Value b = without_changeable(after);
  Comparison comparison;
  std::string way(path);
  if (!comparison.differs(&a, &b, "", false, way)) return std::nullopt;
  const Difference& found = comparison.found;
  if (is_empty(found.before, "")) return found.path + " was added (" + shown(*found.after) + ")";
  if (is_empty(found.after, "")) return found.path + " was removed (it was " + shown(*found.before) + ")";
  return found.path + " was changed from " + shown(*found.before) + " to " + shown(*found.after);
}

}  // namespace basalt::webhooks
