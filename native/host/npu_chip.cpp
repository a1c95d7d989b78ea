#include "host/npu_chip.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "host/devices.h"

namespace rk3588 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kVendor = "rockchip,";
// What names of cores end with: mainline's, the vendor's.
constexpr std::array<std::string_view, 2> kCoreEndings = {"-rknn-core", "-rknpu"};

struct Family {
  std::string_view start;  // of names
  const Chip* chip;        // nullptr: its NPU is known to have other registers
};
constexpr std::array<Family, 10> kFamilies = {{
    {"rk3588", &kRk3588},
    // Variants with fewer working parts.
    {"rk3582", &kRk3588},
    {"rk3583", &kRk3588},
    {"rk3576", &kRk3576},
    {"rk3562", nullptr},
    {"rk3566", nullptr},
    {"rk3568", nullptr},
    {"rv1103", nullptr},
    {"rv1106", nullptr},
    {"rv1126", nullptr},
}};

const Family* family_of(std::string_view name) {
  const auto* found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return name.substr(0, family.start.size()) == family.start;
  });
  return found == kFamilies.end() ? nullptr : found;
}

const Chip* chip_called(std::string_view name) {
  const Family* family = family_of(name);
  return family == nullptr ? nullptr : family->chip;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The chips that a core's modalias names, the one that describes it best first; none if it is no
// core of an NPU.
std::vector<std::string> chips_of_core(std::string_view modalias) {
  std::vector<std::string> chips;
  for (;;) {
    const size_t start = modalias.find(kVendor);
    if (start == std::string_view::npos) return chips;
    modalias.remove_prefix(start + kVendor.size());
    const std::string_view name = modalias.substr(0, modalias.find(kVendor));
    size_t end = std::string_view::npos;
    for (const std::string_view ending : kCoreEndings) end = std::min(end, name.find(ending));
    if (end != std::string_view::npos) chips.emplace_back(name.substr(0, end));
  }
}

// Of a board's list of names, each with a 0 behind it; RK3588 wins.
std::string chip_of_board(std::string_view names) {
  std::string found;
  while (!names.empty()) {
    const size_t end = std::min(names.find('\0'), names.size());
    std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name.substr(0, kVendor.size()) != kVendor) continue;
    name.remove_prefix(kVendor.size());
    const Family* family = family_of(name);
    if (family == nullptr) continue;
    if (family->chip == &kRk3588) return std::string(family->start);
    found = family->start;
  }
  return found;
}

}  // namespace

NpuChip find_npu_chip(const std::string& root) {
  const fs::path base(root);
  std::vector<std::string> first;
  std::vector<std::string> all;
  std::error_code error;
  for (fs::directory_iterator it(base / "sys/bus/platform/devices", error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().filename().string().find("npu") == std::string::npos) continue;
    const std::vector<std::string> chips = chips_of_core(content(it->path() / "modalias"));
    if (chips.empty()) continue;
    first.push_back(chips.front());
    all.insert(all.end(), chips.begin(), chips.end());
  }
  const std::string board = chip_of_board(content(base / "proc/device-tree/compatible"));
  NpuChip found;
  // Any that is not RK3588's says more than those that are.
  const auto other = std::find_if(first.begin(), first.end(), [](const std::string& name) {
    return chip_called(name) != &kRk3588;
  });
  if (other != first.end()) {
    found.name = *other;
  } else if (!board.empty()) {
    found.name = board;
  } else if (!first.empty()) {
    found.name = first.front();
  }
  if (found.name.empty()) return found;
  found.chip = chip_called(found.name);
  if (found.chip != nullptr) found.name = found.chip->name;
  const bool is_alone = std::all_of(all.begin(), all.end(), [&](const std::string& name) {
    return chip_called(name) == found.chip;
  });
  const bool is_of_board = board.empty() || chip_called(board) == found.chip;
  if (!is_alone || !is_of_board) {
    found.naming = NpuChip::Naming::kOthers;
  } else if (!all.empty()) {
    found.naming = NpuChip::Naming::kCores;
  }
  return found;
}

std::string chip_problem(const std::string& node, const std::string& driver, const NpuChip& found) {
  if (found.chip == &kRk3588) return {};
  const std::string whose = node + ": this NPU is " + found.name + "'s";
  if (found.chip == nullptr) {
    return whose + ", for which no program can be compiled; use device=simulator";
  }
  // The vendor's kernels for the chip have an entry for it; rocket has one in few.
  const bool is_known = found.naming == NpuChip::Naming::kCores ||
                        (found.naming == NpuChip::Naming::kBoard && driver == kRknpuDriver);
  if (is_known) return {};
  const std::string called =
      "rockchip," + found.name + (driver == kRocketDriver ? "-rknn-core" : "-rknpu");
  std::string problem = whose +
                        ", and nothing shows that its driver knows that: no core is called " +
                        called + " and nothing else";
  if (driver == kRocketDriver) {
    problem +=
        " (unless rocket is patched for it, it asks that NPU for 28673 tasks, and only the "
        "first job after power-up computes)";
  }
  return problem + "; use a kernel and a device tree made for it, or device=simulator";
}

const Chip& require_chip_of(const std::string& node, const std::string& driver) {
  const NpuChip found = find_npu_chip(root_of_node(node));
  const std::string problem = chip_problem(node, driver, found);
  if (!problem.empty()) throw DeviceError(problem);
  return *found.chip;
}

std::string root_of_node(const std::string& node) {
  const size_t end = node.rfind("/dev/");
  return end == std::string::npos || end == 0 ? "/" : node.substr(0, end);
}

}  // namespace rk3588
