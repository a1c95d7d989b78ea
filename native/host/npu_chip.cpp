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
// Endings of the names of cores: mainline's, the vendor's.
constexpr std::array<std::string_view, 2> kCoreEndings = {"-rknn-core", "-rknpu"};

// Names of chips without a value of their own: variants of RK3588 with fewer working parts, and
// chips whose NPU is known to have other registers.
constexpr std::string_view kVariants[] = {"rk3582", "rk3583"};
constexpr std::string_view kStrangers[] = {"rk3562", "rk3566", "rk3568",
                                           "rv1103", "rv1106", "rv1126"};

// A family of names that begin alike.
struct Family {
  std::string_view start;
  const Chip* chip = nullptr;  // nullptr: none that programs can be compiled for
};

// The family of a name; `start` is empty where nothing is known of it.
Family family_of(std::string_view name) {
  const auto begins_with = [name](std::string_view start) {
    return name.substr(0, start.size()) == start;
  };
  for (const Chip* chip : kChips) {
    if (begins_with(chip->name)) return {chip->name, chip};
  }
  for (const std::string_view start : kVariants) {
    if (begins_with(start)) return {start, &kRk3588};
  }
  for (const std::string_view start : kStrangers) {
    if (begins_with(start)) return {start};
  }
  return {};
}

const Chip* chip_called(std::string_view name) { return family_of(name).chip; }

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

// Reads a board's list of names, each with a 0 behind it; RK3588 wins.
std::string chip_of_board(std::string_view names) {
  std::string found;
  while (!names.empty()) {
    const size_t end = std::min(names.find('\0'), names.size());
    std::string_view name = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    if (name.substr(0, kVendor.size()) != kVendor) continue;
    name.remove_prefix(kVendor.size());
    const Family family = family_of(name);
    if (family.start.empty()) continue;
    if (family.chip == &kRk3588) return std::string(family.start);
    found = family.start;
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
