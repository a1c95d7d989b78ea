#include "board/faults.h"

#include <fstream>
#include <map>

namespace rk3588::board {
namespace {

const std::map<std::string, FaultKind> kKinds = {
    {"hang", FaultKind::kHang},    {"silent", FaultKind::kSilent}, {"ppu", FaultKind::kPpu},
    {"page", FaultKind::kPage},    {"reset", FaultKind::kReset},   {"slow", FaultKind::kSlow},
    {"forget", FaultKind::kForget}};

bool lasts(FaultKind kind) { return kind == FaultKind::kSlow || kind == FaultKind::kForget; }

}  // namespace

TaskFault FaultFile::next() const {
  if (path_.empty()) return {};
  std::string word;
  unsigned count = 0;
  unsigned value = 0;
  {
    std::ifstream file(path_);
    if (!(file >> word >> count)) return {};
    file >> value;
  }
  const auto kind = kKinds.find(word);
  if (kind == kKinds.end() || count == 0) return {};
  if (lasts(kind->second)) return {kind->second, value};
  std::ofstream(path_, std::ios::trunc) << word << " " << count - 1 << " " << value << "\n";
  if (count > 1) return {};
  return {kind->second, value};
}

}  // namespace rk3588::board
