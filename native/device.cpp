#include "device.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "devices.h"

namespace rk3588 {
namespace {

namespace fs = std::filesystem;

// Name of the kernel driver bound to a class device, "" if there is none.
std::string bound_driver(const fs::path& class_device) {
  std::error_code error;
  const fs::path target = fs::read_symlink(class_device / "device" / "driver", error);
  return error ? std::string() : target.filename().string();
}

// The node of the first device of a class whose driver has one of the two spellings.
std::string find_in_class(const fs::path& root, const char* sys_class, const char* dev_folder,
                          const char* driver, const char* other_spelling) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(root / "sys/class" / sys_class, error), end; !error && it != end;
       it.increment(error)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  for (const fs::path& entry : entries) {
    const std::string bound = bound_driver(entry);
    if (bound != driver && bound != other_spelling) continue;
    const fs::path node = root / "dev" / dev_folder / entry.filename();
    if (fs::exists(node, error)) return node.string();
  }
  return {};
}

[[noreturn]] void no_driver(const std::string& what) {
  throw DeviceError(what +
                    ": this version has no backend for NPU hardware yet; ask for the simulator "
                    "with device=simulator");
}

}  // namespace

std::string find_npu_node(const std::string& root) {
  const std::string rocket = find_in_class(root, "accel", "accel", "rocket", "rocket");
  if (!rocket.empty()) return rocket;
  const std::string rknpu = find_in_class(root, "drm", "dri", "RKNPU", "rknpu");
  if (!rknpu.empty()) return rknpu;
  std::error_code error;
  const fs::path misc = fs::path(root) / "dev" / "rknpu";
  return fs::exists(misc, error) ? misc.string() : std::string();
}

std::shared_ptr<Device> open_device(const std::string& name) {
  if (name == "simulator") return make_simulator_device();
  if (name == "null") return make_null_device();
  if (name == "auto") {
    const std::string node = find_npu_node("/");
    if (!node.empty()) no_driver("device auto found the NPU " + node);
    return make_simulator_device();
  }
  if (name == "rocket" || name == "rknpu" || (!name.empty() && name[0] == '/')) {
    no_driver("device " + name);
  }
  throw DeviceError("unknown device \"" + name + "\"; valid: auto, simulator, null");
}

}  // namespace rk3588
