// A delegate without Python: runs what was compiled ahead of time, leaves the rest to the CPU.
#pragma once

#include <memory>
#include <string>

#include "native_options.h"
#include "tflite/delegate_object.h"

namespace rk3588 {

// Why models are not compiled in this process. A failure: there is or should be a Python for it.
struct NoCompiler {
  std::string reason;
  bool is_failure = false;
};

// A model without compiled programs is left to the CPU with a warning; it is refused under
// `strict`, where a device is named and where the compiler's absence is a failure. Throws
// DeviceError.
std::shared_ptr<Session> make_native_session(const NativeOptions& options, NoCompiler no_compiler);

}  // namespace rk3588
