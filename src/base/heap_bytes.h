#pragma once

#include <malloc.h>

#include <cstddef>

// Of tcmalloc, where it is linked (docs/adr/0007-allocator.md).
extern "C" __attribute__((weak)) int MallocExtension_GetNumericProperty(const char* property, std::size_t* value);

namespace basalt::base {

// Bytes that the program has allocated and not freed, as far as the allocator knows. For measurements.
inline std::size_t heap_bytes() {
  std::size_t bytes = 0;
  if (MallocExtension_GetNumericProperty != nullptr &&
      MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &bytes) != 0) {
    return bytes;
  }
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace basalt::base
