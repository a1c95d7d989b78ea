// The devices of this version and the choice among them.
#pragma once

#include <memory>
#include <string>

#include "device.h"

namespace rk3588 {

std::shared_ptr<Device> make_simulator_device();
std::shared_ptr<Device> make_null_device();

// Path of an NPU's device node whose kernel driver (rocket or rknpu) is bound, or "". `root` is the
// directory that holds dev/ and sys/.
std::string find_npu_node(const std::string& root);

}  // namespace rk3588
