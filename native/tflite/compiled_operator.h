// Operators compiled ahead of time: custom operators "rk3588-npu" whose custom options are a
// serialised Program (delegate/compile/aot writes them).
//
// In: a graph of any origin. Out: a kernel for every such operator. Refuses, with one line that
// names the node, a Program that does not verify or that is not for the operator's tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "program/executable.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

inline constexpr char kCompiledOperatorName[] = "rk3588-npu";

struct Claim {
  size_t claimed = 0;  // operators that were compiled ahead of time
  size_t total = 0;    // nodes of the graph
};

// Claims every compiled operator of the graph: each becomes a partition of its own. The programs
// are verified here and uploaded when tensors are allocated; until then they stay in the model's
// memory. Throws ProgramError, std::runtime_error. Only from within the delegate's prepare.
Claim install_compiled_operators(tflite::Context* context, tflite::Delegate* delegate,
                                 const RunSettings& settings);

}  // namespace rk3588
