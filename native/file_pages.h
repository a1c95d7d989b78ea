// Memory of mapped files that is not needed any more.
#pragma once

#include <cstdint>

#include "span.h"

namespace rk3588 {

// Gives back the physical memory behind `bytes` if they are a read-only shared mapping of a file,
// as runtimes map models: later reads bring it back from the file. Does nothing to other memory.
void release_file_pages(Span<const uint8_t> bytes);

}  // namespace rk3588
