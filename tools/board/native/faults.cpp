#include "faults.h"

#include <cstdlib>
#include <fstream>
#include <map>

namespace rk3588::board {
namespace {

const std::map<std::string, FaultKind> kKinds = {
    {"hang", FaultKind::kHang},     {"silent", FaultKind::kSilent},  {"ppu", FaultKind::kPpu},
    {"page", FaultKind::kPage},     {"reset", FaultKind::kReset},    {"slow", FaultKind::kSlow},
    {"forget", FaultKind::kForget}, {"deviate", FaultKind::kDeviate}};

bool lasts(FaultKind kind) {
  return kind == FaultKind::kSlow || kind == FaultKind::kForget || kind == FaultKind::kDeviate;
}

}  // namespace

TaskFault FaultFile::next() const {
  if (path_.empty()) return {};
  std::string word;
  unsigned count = 0;
  std::string text;
  {
    std::ifstream file(path_);
    if (!(file >> word >> count)) return {};
    file >> text;
  }
  const auto kind = kKinds.find(word);
  if (kind == kKinds.end() || count == 0) return {};
  if (kind->second == FaultKind::kDeviate) return {kind->second, 0, text};
  const auto value = static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10));
  if (lasts(kind->second)) return {kind->second, value, ""};
  std::ofstream(path_, std::ios::trunc) << word << " " << count - 1 << " " << value << "\n";
  if (count > 1) return {};
  return {kind->second, value, ""};
}

}  // namespace rk3588::board
