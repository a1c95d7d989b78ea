// One delegated partition inside a TensorFlow Lite graph: init, prepare, invoke, free.
//
// Invoke uses no Python and no GIL. Only prepare may compile again, after a resize; the runtime
// prepares a kernel when the shapes of its inputs are known, the kernel says those of its outputs.
#pragma once

#include <cstdarg>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "host/run_stats.h"
#include "program/executable.h"
#include "tflite/replaced_nodes.h"
#include "tflite/tflite_abi.h"
#include "tflite/watched_constants.h"

namespace rk3588 {

// A partition for the shapes that its inputs have now: without an executable, its nodes run on the
// CPU. `shapes`: of its tensors, as far as they follow from those of its inputs.
struct Recompiled {
  std::unique_ptr<Executable> executable;
  Shapes shapes;
};

// Compiles the partition again. Throws if the graph cannot go on.
using Recompile = std::function<Recompiled(tflite::Context*)>;

// A partition claimed in the delegate's prepare, waiting for the kernel that will own it. Without
// an executable, `recompile` makes it when tensors are allocated.
// `folded`: inputs of its nodes that the program holds as constants, though nodes on the CPU
// compute them, from constants.
struct PendingKernel {
  std::vector<int32_t> nodes;  // ascending; empty: taken
  std::vector<int32_t> folded;
  std::unique_ptr<Executable> executable;
  Recompile recompile;
  WatchedConstants constants;
  // Shared by the graph's kernels; the first of them to run counts its inferences.
  std::shared_ptr<GraphClock> clock;
  bool is_first = false;
  // Of the first: tensors that nodes on the CPU write, or read where no kernel writes them.
  std::vector<int32_t> cpu_tensors;
};

// Gives the kernels of one graph, which are all of it, their clock and chooses the first, that of
// the smallest node: the nodes before it are all left to the CPU. Throws std::runtime_error.
void introduce_kernels(tflite::Context* context, std::vector<PendingKernel>* kernels);

// Makes `pending` visible to the kernels' init on this thread, which the runtime calls from within
// ReplaceNodeSubsetsWithDelegateKernels. Kernels take their entries away.
class PendingScope {
 public:
  explicit PendingScope(std::vector<PendingKernel>* pending);
  ~PendingScope();
  PendingScope(const PendingScope&) = delete;
  PendingScope& operator=(const PendingScope&) = delete;

  // First thing that went wrong in an init, "" if nothing did.
  const std::string& error() const { return error_; }
  void set_error(const std::string& text);
  // The kernel of exactly these nodes, nullptr if there is none.
  std::unique_ptr<PendingKernel> take(const tflite::IntArray& nodes);

 private:
  std::vector<PendingKernel>* pending_;
  PendingScope* outer_;
  std::string error_;
};

tflite::Registration kernel_registration();

// "[1,224,224,3]"
std::string shape_text(const std::vector<int32_t>& shape);

// The tensor as it is now, or nullptr if the index is out of range.
tflite::Tensor* find_tensor(tflite::Context* context, int32_t index);

bool has_shape(const tflite::Tensor& tensor, const std::vector<int32_t>& shape);

// The runtime cuts each report at 1023 bytes, so long texts go in pieces. Call it only together
// with returning an error: the Python runtimes keep the text and prefix it to the next error
// otherwise.
void report_error(tflite::Context* context, const std::string& text);

// Runs `body`, turning any exception into a reported error: none may cross the C boundary.
template <typename Body>
tflite::Status guarded(tflite::Context* context, Body body) {
  std::string text;
  try {
    body();
    return tflite::Status::kOk;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "unknown failure";
  }
  report_error(context, "rk3588 delegate: " + text + "\n");
  return tflite::Status::kError;
}

}  // namespace rk3588
