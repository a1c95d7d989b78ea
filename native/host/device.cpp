#include "host/device.h"

#include "host/devices.h"
#include "host/drm_file.h"
#include "host/npu_chip.h"
#include "host/npu_nodes.h"

namespace rk3588 {
namespace {

std::shared_ptr<Device> open_npu(const std::string& node, const std::string& driver,
                                 const DeviceSettings& settings) {
  const Chip& chip = require_chip_of(node, driver);
  return driver == kRocketDriver ? make_rocket_device(node, settings.cores, chip)
                                 : make_rknpu_device(node, settings.cores, chip);
}

// The driver behind the node decides, whatever the node is called.
std::shared_ptr<Device> open_node(const std::string& node, const DeviceSettings& settings) {
  if (is_rknpu_misc_node(node)) throw DeviceError(rknpu_misc_problem(node));
  const DriverVersion driver = DrmFile(node).version();
  if (driver.name == kRocketDriver || driver.name == kRknpuDriver) {
    return open_npu(node, driver.name, settings);
  }
  throw DeviceError(node + " belongs to driver " + driver.text() +
                    ", not to a Rockchip NPU (rocket, rknpu); try device=auto");
}

// The first usable node of a driver ("" for any), otherwise the first one that should be. nullptr:
// there is none.
const NpuNode* choose_node(const std::vector<NpuNode>& nodes, const std::string& driver) {
  const NpuNode* first = nullptr;
  for (const NpuNode& node : nodes) {
    // Nobody knows whose node it is if it could not be asked.
    const bool matches =
        driver.empty() || node.driver == driver || (node.driver.empty() && driver == kRocketDriver);
    if (!matches || !node.is_candidate()) continue;
    if (node.state == NpuNode::State::kUsable) return &node;
    if (first == nullptr) first = &node;
  }
  return first;
}

std::shared_ptr<Device> open_found(const NpuNode& node, const DeviceSettings& settings) {
  if (node.state != NpuNode::State::kUsable) throw DeviceError(node.problem);
  return open_npu(node.path, node.driver, settings);
}

const Chip& asked_chip(const DeviceSettings& settings) {
  return settings.chip == "auto" ? kRk3588 : chip_named(settings.chip);
}

std::shared_ptr<Device> open_auto(const DeviceSettings& settings) {
  const std::vector<NpuNode> nodes = find_npu_nodes("/");
  const NpuNode* node = choose_node(nodes, "");
  if (node != nullptr) return open_found(*node, settings);
  if (settings.strict) {
    throw DeviceError(
        "strict: no NPU was found (no node of driver rocket or rknpu); ask for the simulator with "
        "device=simulator, or see `doctor`");
  }
  return make_simulator_device(asked_chip(settings));
}

std::shared_ptr<Device> open_driver(const std::string& driver, const char* needs,
                                    const DeviceSettings& settings) {
  const std::vector<NpuNode> nodes = find_npu_nodes("/");
  const NpuNode* node = choose_node(nodes, driver);
  if (node != nullptr) return open_found(*node, settings);
  for (const NpuNode& absent : nodes) {
    if (absent.driver == driver && absent.state == NpuNode::State::kMissing) {
      throw DeviceError("device " + driver + ": " + absent.problem);
    }
  }
  throw DeviceError("device " + driver + ": no node of this driver was found; it needs " + needs +
                    "; `doctor` tells more, device=simulator runs without an NPU");
}

std::shared_ptr<Device> open_any(const std::string& name, const DeviceSettings& settings) {
  if (name == "simulator") return make_simulator_device(asked_chip(settings));
  if (name == "null") return make_null_device();
  if (name == "auto") return open_auto(settings);
  if (name == kRocketDriver) {
    return open_driver(name, "Linux 6.18 or later with CONFIG_DRM_ACCEL_ROCKET", settings);
  }
  if (name == kRknpuDriver) {
    return open_driver(name, "a vendor kernel (5.10 or 6.1) with the DRM build of RKNPU", settings);
  }
  if (!name.empty() && name[0] == '/') return open_node(name, settings);
  throw DeviceError("unknown device \"" + name +
                    "\"; valid: auto, rocket, rknpu, simulator, null or the path of a node");
}

}  // namespace

std::shared_ptr<Buffer> Device::constants(Span<const uint8_t> content, size_t size, Spend spend) {
  std::shared_ptr<Buffer> buffer = allocate(size, BufferId::kConstants);
  copy_spending(content, buffer->bytes(), spend);
  sync_for_device(*buffer);
  return buffer;
}

std::shared_ptr<Device> DeviceStreams::next() {
  if (!is_taken_.exchange(true)) return device_;
  std::shared_ptr<Device> stream = device_->open_stream();
  return stream != nullptr ? stream : device_;
}

const Chip& chip_named(const std::string& name) {
  for (const Chip* chip : kChips) {
    if (chip->name == name) return *chip;
  }
  throw DeviceError("unknown chip \"" + name + "\"");
}

std::vector<int> parse_cores(const std::string& cores, const Chip& chip) {
  std::vector<int> list;
  if (cores == "auto") return list;
  if (cores == "all") {
    for (unsigned core = 0; core < chip.cores; ++core) list.push_back(static_cast<int>(core));
    return list;
  }
  bool is_list = cores.size() % 2 != 0;
  for (size_t i = 0; i < cores.size() && is_list; ++i) {
    const int core = cores[i] - '0';
    const bool is_core = core >= 0 && core < static_cast<int>(chip.cores);
    is_list = i % 2 == 0 ? is_core : cores[i] == ',';
    if (i % 2 == 0) list.push_back(core);
  }
  if (!is_list) {
    throw DeviceError("cores \"" + cores + "\" is not auto, all or a list of 0.." +
                      std::to_string(chip.cores - 1));
  }
  return list;
}

std::vector<int> usable_cores(const std::string& cores, const Chip& chip) {
  return parse_cores(cores == "auto" ? "all" : cores, chip);
}

std::string find_npu_node(const std::string& root) {
  const std::vector<NpuNode> nodes = find_npu_nodes(root);
  const NpuNode* node = choose_node(nodes, "");
  return node != nullptr ? node->path : std::string();
}

std::shared_ptr<Device> open_device(const std::string& name, const DeviceSettings& settings) {
  std::shared_ptr<Device> device = open_any(name, settings);
  if (settings.chip != "auto" && !device->runs(asked_chip(settings))) {
    throw DeviceError("option chip is " + settings.chip + ", but the NPU of " + device->name() +
                      " is " + std::string(device->chip().name) +
                      "'s; leave the option out, or use device=simulator");
  }
  return device;
}

}  // namespace rk3588
