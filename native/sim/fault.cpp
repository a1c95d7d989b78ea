#include "sim/fault.h"

#include <cstdio>

namespace rk3588::sim {

void raise(const char* kind, const Position& where, const std::string& reg,
           const std::string& detail) {
  std::string text = std::string(kind) + " in task " + std::to_string(where.task);
  if (!where.layer.empty()) text += " (" + where.layer + ")";
  if (!reg.empty()) text += ", " + reg;
  text += ": " + detail;
  const std::string unit = reg.substr(0, reg.find('.'));
  throw Fault(kind, unit, reg, where.task, where.layer, text);
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace rk3588::sim
