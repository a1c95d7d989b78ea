// The TfLiteDelegate that hosts hold, whoever stands behind it.
//
// The struct is never freed: an interpreter may outlive the user's handle and call prepare through
// it (after a resize, or when the handle was copied and destroyed twice). destroy_delegate()
// releases everything it owns and turns it into one that claims nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tflite/delegate_kernel.h"
#include "tflite/tflite_abi.h"

namespace rk3588 {

// A delegate's work on graphs. Called from any thread, for any number of interpreters.
class Session {
 public:
  virtual ~Session() = default;
  // Installs kernels for the nodes it claims. Throws std::exception.
  virtual void prepare(tflite::Context* context, tflite::Delegate* delegate) = 0;
};

tflite::Delegate* make_delegate(std::shared_ptr<Session> session);

void destroy_delegate(tflite::Delegate* delegate);

// The answer to a failed create: NULL and a report. Runtimes without a reporter crash on NULL, so
// they get a delegate that refuses every graph with the same text.
tflite::Delegate* refuse_delegate(const std::string& text, tflite::ReportError report);

// Replaces the nodes of `kernels`, each a partition of its own. Throws std::runtime_error. Only
// from within Session::prepare.
void install_kernels(tflite::Context* context, tflite::Delegate* delegate,
                     std::vector<PendingKernel> kernels);

}  // namespace rk3588
