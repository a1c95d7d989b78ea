// Raising faults: every deviation of a program becomes one sentence and ends the run.
#pragma once

#include <string>
#include <vector>

#include "sim/simulator.h"
#include "text.h"

namespace rk3588::sim {

// Classes of faults; Fault::kind. docs/simulator.md describes each.
namespace fault {
inline constexpr char kUnknownTarget[] = "UnknownTarget";
inline constexpr char kUnknownRegister[] = "UnknownRegister";
inline constexpr char kReservedBits[] = "ReservedBits";
inline constexpr char kForbiddenRegister[] = "ForbiddenRegister";
inline constexpr char kMissingEnable[] = "MissingEnable";
inline constexpr char kBadEnableMask[] = "BadEnableMask";
inline constexpr char kMissingBarrier[] = "MissingBarrier";
inline constexpr char kMissingTail[] = "MissingTail";
inline constexpr char kNotRearmed[] = "NotRearmed";
inline constexpr char kWordsAfterEnable[] = "WordsAfterEnable";
inline constexpr char kBrokenChain[] = "BrokenChain";
inline constexpr char kChainLoop[] = "ChainLoop";
inline constexpr char kChainLeavesBuffer[] = "ChainLeavesBuffer";
inline constexpr char kMisalignedAddress[] = "MisalignedAddress";
inline constexpr char kUnmappedAccess[] = "UnmappedAccess";
inline constexpr char kNeverWrittenMemory[] = "NeverWrittenMemory";
inline constexpr char kNeverWrittenRegister[] = "NeverWrittenRegister";
inline constexpr char kInvalidValue[] = "InvalidValue";
inline constexpr char kInconsistentSizes[] = "InconsistentSizes";
inline constexpr char kCbufOverrun[] = "CbufOverrun";
inline constexpr char kReuseMismatch[] = "ReuseMismatch";
inline constexpr char kOperandNotFetched[] = "OperandNotFetched";
inline constexpr char kOutputOverlap[] = "OutputOverlap";
inline constexpr char kAccumulatorRange[] = "AccumulatorRange";
inline constexpr char kNeverCompletes[] = "NeverCompletes";
inline constexpr char kUnsupportedFeature[] = "UnsupportedFeature";
}  // namespace fault

// Where the run is; what faults name.
struct Position {
  int task = 0;  // over all tasks of the run
  std::string layer;
  // Lenient mode: where complaints go instead of ending the run; nullptr: they are faults.
  std::vector<std::string>* complaints = nullptr;
};

// Throws Fault with the sentence "<kind> in task <n> (<layer>), <reg>: <detail>".
// `reg` is "BLOCK.REGISTER" or "BLOCK.REGISTER.FIELD"; its first part becomes Fault::unit.
// `detail`: the texts and numbers that the sentence ends with.
[[noreturn]] void raise_fault(const char* kind, const Position& where, const std::string& reg,
                              const std::string& detail);
template <typename... Parts>
[[noreturn]] void raise(const char* kind, const Position& where, const std::string& reg,
                        const Parts&... detail) {
  raise_fault(kind, where, reg, joined(detail...));
}

// A deviation that programs of other compilers may have and that leaves no doubt about what a task
// computes: a fault, or a line for the report in the lenient mode.
void report_complaint(const char* kind, const Position& where, const std::string& reg,
                      const std::string& detail);
template <typename... Parts>
void complain(const char* kind, const Position& where, const std::string& reg,
              const Parts&... detail) {
  report_complaint(kind, where, reg, joined(detail...));
}

// Hexadecimal with 0x, for messages.
std::string hex(uint64_t value);

}  // namespace rk3588::sim
