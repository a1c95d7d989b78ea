#include "native_session.h"

#include <stdexcept>
#include <utility>

#include "program_home.h"
#include "tflite/compiled_operator.h"

namespace rk3588 {
namespace {

class NativeSession : public Session {
 public:
  NativeSession(const NativeOptions& options, NoCompiler no_compiler)
      : home_(options), no_compiler_(std::move(no_compiler)) {}

  void prepare(tflite::Context* context, tflite::Delegate* delegate) override {
    const Claim claim =
        install_compiled_operators(context, delegate, home_.settings(context->threads()));
    const std::string left = std::to_string(claim.total - claim.claimed) + " of " +
                             std::to_string(claim.total) + " nodes";
    const NativeOptions& options = home_.options();
    if (claim.claimed == 0 && claim.total > 0) {
      const std::string what =
          no_compiler_.is_failure ? "" : "this model was not compiled ahead of time and ";
      const std::string text =
          what + no_compiler_.reason + ": " + left +
          " stay on the CPU; make a compiled model with: rk3588-delegate compile MODEL -o "
          "OUT.tflite";
      if (options.strict) throw std::runtime_error("strict: " + text);
      // Whoever names a device wants the model to run there.
      if (options.device != "auto" || no_compiler_.is_failure) throw std::runtime_error(text);
      home_.log(LogLevel::kWarning, text);
      return;
    }
    if (options.strict && claim.claimed < claim.total) {
      throw std::runtime_error("strict: " + left +
                               " of this model, compiled ahead of time, stay on the CPU; compile "
                               "it under strict, which names them, and load it without");
    }
    home_.announce_simulator();
    home_.log(LogLevel::kInfo, home_.device_name() + ": " + std::to_string(claim.claimed) +
                                   " compiled operators; " + left + " stay on the CPU");
  }

 private:
  ProgramHome home_;
  NoCompiler no_compiler_;
};

}  // namespace

std::shared_ptr<Session> make_native_session(const NativeOptions& options, NoCompiler no_compiler) {
  return std::make_shared<NativeSession>(options, std::move(no_compiler));
}

}  // namespace rk3588
