#include "sim/fault.h"

#include <cstdio>

namespace rk3588::sim {

namespace {

std::string sentence(const char* kind, const Position& where, const std::string& reg,
                     const std::string& detail) {
  std::string text = joined(kind, " in task ", where.task);
  if (!where.layer.empty()) text += " (" + where.layer + ")";
  if (!reg.empty()) text += ", " + reg;
  return text + ": " + detail;
}

}  // namespace

void raise_fault(const char* kind, const Position& where, const std::string& reg,
                 const std::string& detail) {
  const std::string text = sentence(kind, where, reg, detail);
  const std::string unit = reg.substr(0, reg.find('.'));
  throw Fault(kind, unit, reg, where.task, where.layer, text);
}

void report_complaint(const char* kind, const Position& where, const std::string& reg,
                      const std::string& detail) {
  if (where.complaints == nullptr) raise_fault(kind, where, reg, detail);
  where.complaints->push_back(sentence(kind, where, reg, detail));
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace rk3588::sim
