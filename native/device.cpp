#include "device.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "devices.h"
#include "drm_file.h"

namespace rk3588 {
namespace {

namespace fs = std::filesystem;

// A device that needs no preparation: its submissions call submit().
class PlainSubmission : public Submission {
 public:
  PlainSubmission(Device& device, const Submit& submit) : device_(device), submit_(submit) {}
  void run() override { device_.submit(submit_); }

 private:
  Device& device_;
  Submit submit_;
};

// Name of the kernel driver bound to a class device, "" if there is none.
std::string bound_driver(const fs::path& class_device) {
  std::error_code error;
  const fs::path target = fs::read_symlink(class_device / "device" / "driver", error);
  return error ? std::string() : target.filename().string();
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    entries.push_back(it->path());
  }
  // Render nodes before card nodes: those are for everybody in the group, these for display
  // servers.
  std::sort(entries.begin(), entries.end(), [](const fs::path& a, const fs::path& b) {
    const bool a_renders = a.filename().string().rfind("render", 0) == 0;
    const bool b_renders = b.filename().string().rfind("render", 0) == 0;
    return a_renders != b_renders ? a_renders : a < b;
  });
  return entries;
}

// The node of the first device of a class whose driver has one of the two spellings.
std::string find_in_class(const fs::path& root, const char* sys_class, const char* dev_folder,
                          const char* driver, const char* other_spelling) {
  std::error_code error;
  for (const fs::path& entry : sorted_entries(root / "sys/class" / sys_class)) {
    const std::string bound = bound_driver(entry);
    if (bound != driver && bound != other_spelling) continue;
    const fs::path node = root / "dev" / dev_folder / entry.filename();
    if (fs::exists(node, error)) return node.string();
  }
  return {};
}

std::string find_rocket(const std::string& root) {
  return find_in_class(root, "accel", "accel", kRocketDriver, kRocketDriver);
}

std::string find_rknpu(const std::string& root) {
  return find_in_class(root, "drm", "dri", "RKNPU", kRknpuDriver);
}

// The driver behind the node decides, whatever the node is called.
std::shared_ptr<Device> open_node(const std::string& node, const std::string& cores) {
  const DriverVersion driver = DrmFile(node).version();
  if (driver.name == kRocketDriver) return make_rocket_device(node, cores);
  if (driver.name == kRknpuDriver) return make_rknpu_device(node, cores);
  throw DeviceError(node + " belongs to driver " + driver.text() +
                    ", not to an RK3588 NPU (rocket, rknpu); try device=auto");
}

std::shared_ptr<Device> open_auto(const DeviceSettings& settings) {
  const std::string node = find_npu_node("/");
  if (!node.empty()) return open_node(node, settings.cores);
  if (settings.strict) {
    throw DeviceError(
        "strict: no NPU was found (no node of driver rocket or rknpu); ask for the simulator with "
        "device=simulator, or see `doctor`");
  }
  return make_simulator_device();
}

[[noreturn]] void no_device(const std::string& name, const char* needs) {
  throw DeviceError("device " + name + ": no node of this driver was found; it needs " + needs +
                    "; `doctor` tells more, device=simulator runs without an NPU");
}

}  // namespace

std::shared_ptr<Buffer> Device::constants(Span<const uint8_t> content, size_t size) {
  std::shared_ptr<Buffer> buffer = allocate(size, BufferId::kConstants);
  const Span<uint8_t> bytes = buffer->bytes();
  if (content.size() > 0) std::memcpy(bytes.data(), content.data(), content.size());
  std::memset(bytes.data() + content.size(), 0, bytes.size() - content.size());
  sync_for_device(*buffer);
  return buffer;
}

std::unique_ptr<Submission> Device::prepare(const Submit& submit) {
  return std::make_unique<PlainSubmission>(*this, submit);
}

std::shared_ptr<Device> DeviceStreams::next() {
  if (!is_taken_.exchange(true)) return device_;
  std::shared_ptr<Device> stream = device_->open_stream();
  return stream != nullptr ? stream : device_;
}

std::vector<int> parse_cores(const std::string& cores) {
  if (cores == "auto") return {};
  if (cores == "all") return {0, 1, 2};
  std::vector<int> list;
  bool expects_core = true;
  for (const char c : cores) {
    const bool is_core = c >= '0' && c <= '2';
    if (is_core != expects_core || (!is_core && c != ',')) {
      expects_core = true;
      break;
    }
    if (is_core) list.push_back(c - '0');
    expects_core = !expects_core;
  }
  if (expects_core) throw DeviceError("cores \"" + cores + "\" is not auto, all or a list of 0..2");
  return list;
}

std::string find_npu_node(const std::string& root) {
  const std::string rocket = find_rocket(root);
  if (!rocket.empty()) return rocket;
  const std::string rknpu = find_rknpu(root);
  if (!rknpu.empty()) return rknpu;
  std::error_code error;
  const fs::path misc = fs::path(root) / "dev" / "rknpu";
  return fs::exists(misc, error) ? misc.string() : std::string();
}

std::shared_ptr<Device> open_device(const std::string& name, const DeviceSettings& settings) {
  if (name == "simulator") return make_simulator_device();
  if (name == "null") return make_null_device();
  if (name == "auto") return open_auto(settings);
  if (name == kRocketDriver) {
    const std::string node = find_rocket("/");
    if (node.empty()) no_device(name, "Linux 6.18 or later with CONFIG_DRM_ACCEL_ROCKET");
    return make_rocket_device(node, settings.cores);
  }
  if (name == kRknpuDriver) {
    const std::string node = find_rknpu("/");
    if (node.empty()) no_device(name, "a vendor kernel (5.10 or 6.1) with the DRM build of RKNPU");
    return make_rknpu_device(node, settings.cores);
  }
  if (!name.empty() && name[0] == '/') return open_node(name, settings.cores);
  throw DeviceError("unknown device \"" + name +
                    "\"; valid: auto, rocket, rknpu, simulator, null or the path of a node");
}

}  // namespace rk3588
