#include "host/npu_chip.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "host/devices.h"

namespace rk3588 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVendor = "rockchip,";
// What names of cores end with: mainline's, the vendor's.
constexpr std::array<std::string_view, 2> kCoreEndings = {"-rknn-core", "-rknpu"};
// RK3588 and its variants with fewer working parts.
constexpr std::array<std::string_view, 3> kOwn = {"rk3588", "rk3582", "rk3583"};
// Chips of boards whose NPU is known to have other registers.
constexpr std::array<std::string_view, 7> kForeign = {"rk3562", "rk3566", "rk3568", "rk3576",
                                                      "rv1103", "rv1106", "rv1126"};

template <size_t N>
bool begins_with_one(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::any_of(names.begin(), names.end(), [name](std::string_view start) {
    return name.substr(0, start.size()) == start;
  });
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The first chip that a core's modalias names, "" if it is no core of an NPU.
std::string chip_of_core(std::string_view modalias) {
  const size_t start = modalias.find(kVendor);
  if (start == std::string_view::npos) return "";
  const std::string_view name = modalias.substr(start + kVendor.size());
  size_t end = std::string_view::npos;
  for (const std::string_view ending : kCoreEndings) end = std::min(end, name.find(ending));
  return end == std::string_view::npos ? "" : std::string(name.substr(0, end));
}

// Of a board's list of names, each with a 0 behind it.
std::string foreign_chip_of_board(std::string_view names) {
  std::string foreign;
  while (!names.empty()) {
    const size_t end = std::min(names.find('\0'), names.size());
    std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name.substr(0, kVendor.size()) != kVendor) continue;
    name.remove_prefix(kVendor.size());
    if (begins_with_one(name, kOwn)) return "";
    if (begins_with_one(name, kForeign)) foreign = name;
  }
  return foreign;
}

}  // namespace

std::string foreign_npu_chip(const std::string& root) {
  const fs::path base(root);
  std::error_code error;
  for (fs::directory_iterator it(base / "sys/bus/platform/devices", error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find("npu") == std::string::npos) continue;
    const std::string chip = chip_of_core(content(it->path() / "modalias"));
    if (!chip.empty() && !begins_with_one(chip, kOwn)) return chip;
  }
  return foreign_chip_of_board(content(base / "proc/device-tree/compatible"));
}

std::string foreign_chip_problem(const std::string& node, const std::string& driver,
                                 const std::string& chip) {
  std::string problem =
      node + ": this NPU is " + chip + "'s, whose registers are not those of RK3588";
  if (chip == "rk3576" && driver == kRocketDriver) {
    problem += " (and unless rocket is patched for it, it asks that NPU for 28673 tasks)";
  }
  return problem + "; no program for it was tried on a board: use device=simulator";
}

std::string root_of_node(const std::string& node) {
  const size_t end = node.rfind("/dev/");
  return end == std::string::npos || end == 0 ? "/" : node.substr(0, end);
}

}  // namespace rk3588
