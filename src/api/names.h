#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/fwd.h"

namespace basalt {
struct Cause;
}

// What Kubernetes demands of names, labels and their like (k8s.io/apimachinery pkg/util/validation, v0.36). Every check
// comes as a question, and as a function that returns the complaints in Kubernetes' own words, which users and tests
// know; none if all is well. Linear time, no regular expressions.

namespace basalt::api {

inline constexpr std::size_t kDnsLabelMax = 63;
inline constexpr std::size_t kDnsSubdomainMax = 253;
inline constexpr std::size_t kLabelValueMax = 63;
inline constexpr std::size_t kQualifiedNameMax = 63;  // of the part after the slash
inline constexpr std::size_t kPortNameMax = 15;
inline constexpr std::size_t kAnnotationsBytesMax = 256 * 1024;  // all keys and values of an object

using Complaints = std::vector<std::string>;

// "my-name", "123-abc": most names of containers, namespaces, volumes.
[[nodiscard]] bool is_dns1123_label(std::string_view text);
[[nodiscard]] Complaints dns1123_label_complaints(std::string_view text);

// Labels with dots between them: names of most objects. The limit is on the whole, not on each label.
[[nodiscard]] bool is_dns1123_subdomain(std::string_view text);
[[nodiscard]] Complaints dns1123_subdomain_complaints(std::string_view text);

// Like a label but begins with a letter: names of services.
[[nodiscard]] bool is_dns1035_label(std::string_view text);
[[nodiscard]] Complaints dns1035_label_complaints(std::string_view text);

// "name" or "example.com/name": keys of labels and annotations, names of extended resources.
[[nodiscard]] bool is_qualified_name(std::string_view text);
[[nodiscard]] Complaints qualified_name_complaints(std::string_view text);

[[nodiscard]] bool is_label_value(std::string_view text);  // may be empty
[[nodiscard]] Complaints label_value_complaints(std::string_view text);

[[nodiscard]] bool is_env_var_name(std::string_view text);
[[nodiscard]] Complaints env_var_name_complaints(std::string_view text);
// Since Kubernetes 1.34: any printable ASCII but '='.
[[nodiscard]] Complaints relaxed_env_var_name_complaints(std::string_view text);

[[nodiscard]] Complaints c_identifier_complaints(std::string_view text);

// Keys of ConfigMaps and Secrets, which become file names.
[[nodiscard]] bool is_config_key(std::string_view text);
[[nodiscard]] Complaints config_key_complaints(std::string_view text);

// IANA service names: "http", "metrics-2".
[[nodiscard]] bool is_port_name(std::string_view text);
[[nodiscard]] Complaints port_name_complaints(std::string_view text);
[[nodiscard]] Complaints port_number_complaints(std::int64_t port);

[[nodiscard]] Complaints percent_complaints(std::string_view text);

// Names that may be anything a URL can hold in one segment (roles and their like).
[[nodiscard]] Complaints path_segment_complaints(std::string_view text);

// A generateName is checked as if the letters that will follow were there: this is the name to check in its place.
[[nodiscard]] std::string name_for_prefix_check(std::string_view generate_name);

// Whole maps; complaints are added with the type FieldValueInvalid (or FieldValueTooLong) and the given field path.
void check_labels(const StringMap& labels, std::string_view path, std::vector<Cause>& causes);
void check_annotations(const StringMap& annotations, std::string_view path, std::vector<Cause>& causes);

}  // namespace basalt::api
