#pragma once

#include <string_view>

#include "json/reader.h"

// Reading what one knows of an object and passing over the rest.

namespace basalt::json {

// Calls on_member(key) for each member of an object; false means that the value was not read and is skipped. Null is
// an object without members.
template <class OnMember>
void read_object(Reader& reader, OnMember on_member) {
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (!on_member(key)) reader.skip();
  }
}

// Calls on_element() for each element of an array; null is an empty one.
template <class OnElement>
void read_array(Reader& reader, OnElement on_element) {
  if (reader.consume_null() || !reader.begin_array()) return;
  while (reader.next_element()) on_element();
}

// Decodes a value unless it is null. True, for use in on_member.
template <class T>
bool read_into(Reader& reader, T& value) {
  if (!reader.consume_null()) decode(reader, value);
  return true;
}

}  // namespace basalt::json
