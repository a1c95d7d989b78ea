// Memory of this process: what is not needed any more, what can be read, written or executed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "span.h"

namespace rk3588 {

// Gives back the physical memory behind `bytes` if they are a read-only shared mapping of a file,
// as runtimes map models: later reads bring it back from the file. Does nothing to other memory.
void release_file_pages(Span<const uint8_t> bytes);

// Gives back the physical memory behind `bytes`, a part of an anonymous private mapping that nobody
// reads again: it holds zeros from then on.
void release_own_pages(Span<const uint8_t> bytes);

// The memory that this process could read, write or execute when this was made.
class MappedMemory {
 public:
  enum class Use { kRead, kWrite, kExecute };
  explicit MappedMemory(Use use);
  bool touches(Span<const uint8_t> bytes) const;
  // The text at `begin`: empty if its end is not to be had. A model's name may be an offset that
  // leaves the file, which the runtime does not look at.
  std::string text(const char* begin) const;

 private:
  using Range = std::pair<uintptr_t, uintptr_t>;  // first and end
  // The first one that ends behind `address`.
  std::vector<Range>::const_iterator behind(uintptr_t address) const;

  std::vector<Range> ranges_;  // ascending, none adjacent
};

// Gives memory that was freed back to the system: what compiling a model needed for a moment would
// otherwise count as this process's for ever. Where the C library cannot, nothing happens.
void release_freed_memory();

}  // namespace rk3588
