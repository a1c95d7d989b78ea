// A delegate without Python: runs what was compiled ahead of time, leaves the rest to the CPU.
#pragma once

#include <memory>
#include <string>

#include "delegate_object.h"
#include "native_options.h"

namespace rk3588 {

// `no_compiler` says why models are not compiled here. Throws DeviceError.
std::shared_ptr<Session> make_native_session(const NativeOptions& options, std::string no_compiler);

}  // namespace rk3588
