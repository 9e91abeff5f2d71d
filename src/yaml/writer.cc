#include "yaml/writer.h"

#include <yaml.h>

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "json/scan.h"
#include "json/writer.h"
#include "yaml/scalar.h"

namespace basalt::yaml {
namespace {

int append_output(void* out, unsigned char* bytes, std::size_t count) {
  static_cast<std::string*>(out)->append(reinterpret_cast<const char*>(bytes), count);
  return 1;
}

// libyaml's emitter takes only valid UTF-8.
std::string to_valid_utf8(std::string_view text) {
  std::string valid;
  while (true) {
    const std::size_t bad = json::find_invalid_utf8(text);
    valid.append(text.substr(0, bad));
    if (bad == std::string_view::npos) return valid;
    valid.append("\xEF\xBF\xBD");
    text.remove_prefix(bad + 1);
  }
}

// True if every character stands for itself in a literal block and comes back. Carriage returns and the line ends of
// Unicode (U+0085, U+2028, U+2029) would come back as line feeds.
bool fits_literal_block(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      if (byte != '\n' && byte != '\t' && (byte < 0x20 || byte == 0x7F)) return false;
      ++at;
      continue;
    }
    const std::size_t length = json::utf8_length(text.data() + at, text.data() + text.size());
    const char32_t code = json::utf8_decode(text.data() + at, length);
    if (code < 0xA0 || code == 0x2028 || code == 0x2029 || code == 0xFEFF) return false;
    at += length;
  }
  return true;
}

// Feeds one value to libyaml's emitter, which knows indentation, line breaking and which texts need quotes; which texts
// would change their meaning without quotes it learns from us.
class Emitter {
 public:
  explicit Emitter(std::string& out) {
    BASALT_CHECK_MSG(yaml_emitter_initialize(&emitter_) == 1, "out of memory");
    yaml_emitter_set_output(&emitter_, append_output, &out);
    yaml_emitter_set_unicode(&emitter_, 1);
  }
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;
  ~Emitter() { yaml_emitter_delete(&emitter_); }

  void document(const json::Value& value) {
    yaml_event_t event;
    emit(event, yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
    emit(event, yaml_document_start_event_initialize(&event, nullptr, nullptr, nullptr, 1));
    node(value);
    emit(event, yaml_document_end_event_initialize(&event, 1));
    emit(event, yaml_stream_end_event_initialize(&event));
  }

 private:
  void emit(yaml_event_t& event, int made) {
    BASALT_CHECK_MSG(made == 1, "out of memory");
    BASALT_CHECK_MSG(yaml_emitter_emit(&emitter_, &event) == 1,
                     emitter_.problem != nullptr ? emitter_.problem : "yaml emitter");
  }

  void node(const json::Value& value) {
    yaml_event_t event;
    if (value.is_object()) {
      const bool is_empty = value.as_object().empty();
      const auto style = is_empty ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE;
      emit(event, yaml_mapping_start_event_initialize(&event, nullptr, nullptr, 1, style));
      for (const json::Member& member : value.as_object()) {
        string(member.key);
        node(member.value);
      }
      emit(event, yaml_mapping_end_event_initialize(&event));
    } else if (value.is_array()) {
      const bool is_empty = value.as_array().empty();
      const auto style = is_empty ? YAML_FLOW_SEQUENCE_STYLE : YAML_BLOCK_SEQUENCE_STYLE;
      emit(event, yaml_sequence_start_event_initialize(&event, nullptr, nullptr, 1, style));
      for (const json::Value& element : value.as_array()) node(element);
      emit(event, yaml_sequence_end_event_initialize(&event));
    } else if (value.is_string()) {
      string(value.as_string());
    } else {
      // JSON's spelling of null, booleans and numbers is YAML's, too.
      scalar(value.to_text(), YAML_PLAIN_SCALAR_STYLE);
    }
  }

  void string(std::string_view text) {
    if (json::find_invalid_utf8(text) != std::string_view::npos) {
      string(to_valid_utf8(text));
      return;
    }
    const bool has_lines = text.find('\n') != std::string_view::npos;
    const bool is_plain = resolve_plain(text).type == ScalarType::String && !looks_special_elsewhere(text);
    if (has_lines && fits_literal_block(text)) {
      scalar(text, YAML_LITERAL_SCALAR_STYLE);
    } else if (!has_lines && is_plain && fits_literal_block(text)) {
      scalar(text, YAML_PLAIN_SCALAR_STYLE);
    } else {
      scalar(text, YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    }
  }

  void scalar(std::string_view text, yaml_scalar_style_t style) {
    yaml_event_t event;
    emit(event,
         yaml_scalar_event_initialize(&event, nullptr, nullptr, reinterpret_cast<const yaml_char_t*>(text.data()),
                                      static_cast<int>(text.size()), 1, 1, style));
  }

  yaml_emitter_t emitter_{};
};

}  // namespace

std::string write(const json::Value& value) {
  std::string out;
  Emitter(out).document(value);
  // After a block that keeps its last line ends, libyaml writes the end of the document; kubectl does not.
  constexpr std::string_view kDocumentEnd = "\n...\n";
  if (out.ends_with(kDocumentEnd)) out.resize(out.size() - kDocumentEnd.size() + 1);
  return out;
}

}  // namespace basalt::yaml
