#include "host/npu_nodes.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "host/devices.h"
#include "host/drm_file.h"
#include "host/npu_chip.h"

namespace rk3588 {
namespace {

namespace fs = std::filesystem;

// The platform device that the mainline driver makes for all cores together.
constexpr char kRocketOwner[] = "rknn";
// The vendor's spelling in sysfs.
constexpr char kRknpuBound[] = "RKNPU";
constexpr unsigned kMiscMajor = 10;  // Documentation/admin-guide/devices.txt

// Last part of what a symbolic link names, "" if there is none.
std::string link_name(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  return error ? std::string() : target.filename().string();
}

// Names in a folder that are `prefix` and a number, by number.
std::set<std::pair<unsigned long, std::string>> numbered(const fs::path& folder,
                                                         const std::string& prefix) {
  std::set<std::pair<unsigned long, std::string>> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::string digits = name.substr(std::min(prefix.size(), name.size()));
    const bool is_number = !digits.empty() && digits.size() < 9 &&
                           digits.find_first_not_of("0123456789") == std::string::npos;
    if (name.rfind(prefix, 0) == 0 && is_number) names.insert({std::stoul(digits), name});
  }
  return names;
}

bool is_npu_driver(const std::string& name) {
  return name == kRocketDriver || name == kRknpuDriver;
}

// Opens the node and asks. `expected`: the driver by sysfs, "" if that says nothing.
NpuNode ask(const std::string& path, const std::string& expected) {
  NpuNode node{path, expected, "", NpuNode::State::kUsable, ""};
  try {
    const DriverVersion version = DrmFile(path).version();
    node.driver = version.name;
    node.version = version.number();
    if (!is_npu_driver(version.name)) node.state = NpuNode::State::kForeign;
  } catch (const KernelError& error) {
    const bool is_denied = error.number == EACCES || error.number == EPERM;
    node.state = is_denied ? NpuNode::State::kDenied : NpuNode::State::kFailed;
    node.problem = error.what();
  } catch (const DeviceError& error) {
    node.state = NpuNode::State::kFailed;
    node.problem = error.what();
  }
  return node;
}

NpuNode missing(const std::string& path, const char* driver) {
  return {path, driver, "", NpuNode::State::kMissing,
          path +
              " does not exist, though the kernel has the device; in a container: start it again "
              "with --device " +
              path + " (a driver loaded after its start adds no node there); otherwise check udev"};
}

void find_accel(const fs::path& root, std::vector<NpuNode>* nodes) {
  const fs::path classes = root / "sys/class/accel";
  const fs::path folder = root / "dev/accel";
  auto names = numbered(classes, "accel");
  names.merge(numbered(folder, "accel"));
  std::error_code error;
  for (const auto& [number, name] : names) {
    const fs::path device = classes / name / "device";
    const std::string path = (folder / name).string();
    const std::string bound = link_name(device / "driver");
    if (!bound.empty() && bound != kRocketDriver) {
      nodes->push_back({path, bound, "", NpuNode::State::kForeign, ""});
      continue;
    }
    const bool is_rocket = bound == kRocketDriver || link_name(device) == kRocketOwner;
    if (!fs::exists(path, error)) {
      if (is_rocket) nodes->push_back(missing(path, kRocketDriver));
      continue;
    }
    NpuNode node = ask(path, is_rocket ? kRocketDriver : "");
    // A node that cannot be asked counts as an NPU where sysfs says so or says nothing at all.
    const bool has_entry = fs::exists(classes / name, error);
    const bool is_unknown = !is_rocket && !is_npu_driver(node.driver);
    if (is_unknown && (has_entry || node.state == NpuNode::State::kFailed)) {
      node.state = NpuNode::State::kForeign;
      node.problem.clear();
    }
    nodes->push_back(std::move(node));
  }
}

// Without sysfs: render nodes that say rknpu, or else card nodes. One that does not answer is a
// graphics device.
void find_drm_without_sysfs(const fs::path& root, std::vector<NpuNode>* nodes) {
  bool is_found = false;
  for (const char* prefix : {"renderD", "card"}) {
    for (const auto& [number, name] : numbered(root / "dev/dri", prefix)) {
      NpuNode node = ask((root / "dev/dri" / name).string(), "");
      if (node.driver != kRknpuDriver) continue;
      nodes->push_back(std::move(node));
      is_found = true;
    }
    if (is_found) return;
  }
}

void find_drm(const fs::path& root, std::vector<NpuNode>* nodes) {
  const fs::path classes = root / "sys/class/drm";
  std::error_code error;
  if (!fs::exists(classes, error)) return find_drm_without_sysfs(root, nodes);
  std::set<std::string> seen;
  const char* absent = nullptr;
  std::string absent_path;
  // Render nodes are for everybody in the group, card nodes for display servers.
  for (const char* prefix : {"renderD", "card"}) {
    for (const auto& [number, name] : numbered(classes, prefix)) {
      const fs::path device = classes / name / "device";
      const std::string bound = link_name(device / "driver");
      if (bound != kRknpuBound && bound != kRknpuDriver) continue;
      const std::string path = (root / "dev/dri" / name).string();
      const std::string owner = link_name(device);
      if (!owner.empty() && seen.count(owner) != 0) continue;
      if (!fs::exists(path, error)) {
        if (absent == nullptr) absent_path = path;
        absent = kRknpuDriver;
        continue;
      }
      if (!owner.empty()) seen.insert(owner);
      nodes->push_back(ask(path, kRknpuDriver));
    }
  }
  if (absent != nullptr && seen.empty()) nodes->push_back(missing(absent_path, absent));
}

void find_misc(const fs::path& root, std::vector<NpuNode>* nodes) {
  const std::string path = (root / "dev/rknpu").string();
  const bool has_drm = std::any_of(nodes->begin(), nodes->end(), [](const NpuNode& node) {
    return node.driver == kRknpuDriver && node.state != NpuNode::State::kMissing;
  });
  std::error_code error;
  if (has_drm || !fs::exists(path, error)) return;
  nodes->push_back({path, kRknpuDriver, "", NpuNode::State::kFailed, rknpu_misc_problem(path)});
}

// Cores that rocket has taken, though no class shows a device of theirs.
void find_bound_cores(const fs::path& root, std::vector<NpuNode>* nodes) {
  const bool is_known = std::any_of(nodes->begin(), nodes->end(), [](const NpuNode& node) {
    return node.state != NpuNode::State::kForeign;
  });
  if (is_known) return;
  std::error_code error;
  for (fs::directory_iterator it(root / "sys/bus/platform/devices", error), end;
       !error && it != end; it.increment(error)) {
    const bool is_core = it->path().extension() == ".npu";
    if (!is_core || link_name(it->path() / "driver") != kRocketDriver) continue;
    const std::string folder = (root / "dev/accel").string();
    nodes->push_back({folder, kRocketDriver, "", NpuNode::State::kMissing,
                      "driver rocket has the NPU's cores, but there is no node of it in " + folder +
                          "; in a container that was started before the driver was loaded: start "
                          "it again with --device " +
                          folder + "; otherwise check udev"});
    return;
  }
}

void refuse_other_chips(const std::string& root, std::vector<NpuNode>* nodes) {
  if (nodes->empty()) return;
  const NpuChip found = find_npu_chip(root);
  for (NpuNode& node : *nodes) {
    const std::string problem =
        node.is_candidate() ? chip_problem(node.path, node.driver, found) : std::string();
    if (problem.empty()) continue;
    node.state = NpuNode::State::kFailed;
    node.problem = problem;
  }
}

}  // namespace

const char* name_of(NpuNode::State state) {
  constexpr const char* kNames[] = {"usable", "missing", "denied", "failed", "foreign"};
  return kNames[static_cast<size_t>(state)];
}

std::vector<NpuNode> find_npu_nodes(const std::string& root) {
  std::vector<NpuNode> nodes;
  find_accel(root, &nodes);
  find_drm(root, &nodes);
  find_misc(root, &nodes);
  find_bound_cores(root, &nodes);
  refuse_other_chips(root, &nodes);
  return nodes;
}

std::string missing_npu_problem(const std::string& root) {
  for (const NpuNode& node : find_npu_nodes(root)) {
    if (node.state == NpuNode::State::kMissing) return node.problem;
  }
  return {};
}

bool is_rknpu_misc_node(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return false;
  return fs::path(path).filename() == kRknpuDriver &&
         (!S_ISCHR(status.st_mode) || major(status.st_rdev) == kMiscMajor);
}

std::string rknpu_misc_problem(const std::string& path) {
  return path +
         ": this kernel's rknpu is built for DMA heaps, which is not supported; use a kernel "
         "with CONFIG_ROCKCHIP_RKNPU_DRM_GEM, or Linux 6.18 or later with "
         "CONFIG_DRM_ACCEL_ROCKET";
}

}  // namespace rk3588
