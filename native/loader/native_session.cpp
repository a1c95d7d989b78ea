#include "native_session.h"

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "evidence/form_evidence.h"
#include "host/device.h"
#include "host/devices.h"
#include "host/npu_nodes.h"
#include "host/run_stats.h"
#include "tflite/compiled_operator.h"

namespace rk3588 {
namespace {

class NativeSession : public Session {
 public:
  NativeSession(const NativeOptions& options, NoCompiler no_compiler)
      : options_(options),
        no_compiler_(std::move(no_compiler)),
        streams_(open_device(options.device, {options.cores, options.strict, options.chip})),
        verifier_(options.repeats_runs() ? make_simulator_device() : nullptr) {
    if (options.stats_dir != "off") RunStatsHome::publish_in(options.stats_dir);
    const std::string problem = take_keeper_problem();
    if (!problem.empty()) log(LogLevel::kInfo, problem);
  }

  ~NativeSession() override {
    const std::string text = stats_line(RunStatsHome::of_process()->take());
    if (!text.empty()) log(LogLevel::kInfo, text);
  }
  NativeSession(const NativeSession&) = delete;
  NativeSession& operator=(const NativeSession&) = delete;

  void prepare(tflite::Context* context, tflite::Delegate* delegate) override {
    std::shared_ptr<Device> device = streams_.next();
    const EvidenceSettings evidence{options_.verify == "off" ? "off" : "auto", options_.cache_dir,
                                    options_.cores, options_.timeout_ms};
    std::shared_ptr<ProgramGate> gate =
        FormEvidence::of(device, evidence, [level = options_.log_level](const std::string& text) {
          log(level, LogLevel::kWarning, text);
        });
    const Claim claim = install_compiled_operators(
        context, delegate,
        {std::move(device), options_.timeout_ms, verifier_, context->threads(), std::move(gate),
         options_.verify == "sample" ? kSampledRuns : 0});
    const std::string left = std::to_string(claim.total - claim.claimed) + " of " +
                             std::to_string(claim.total) + " nodes";
    if (claim.claimed == 0 && claim.total > 0) {
      const std::string what =
          no_compiler_.is_failure ? "" : "this model was not compiled ahead of time and ";
      const std::string text =
          what + no_compiler_.reason + ": " + left +
          " stay on the CPU; make a compiled model with: rk3588-delegate compile MODEL -o "
          "OUT.tflite";
      if (options_.strict) throw std::runtime_error("strict: " + text);
      // Whoever names a device wants the model to run there.
      if (options_.device != "auto" || no_compiler_.is_failure) throw std::runtime_error(text);
      log(LogLevel::kWarning, text);
      return;
    }
    if (options_.strict && claim.claimed < claim.total) {
      throw std::runtime_error("strict: " + left +
                               " of this model, compiled ahead of time, stay on the CPU; compile "
                               "it under strict, which names them, and load it without");
    }
    if (options_.device == "auto" && streams_.name() == "simulator" &&
        !simulator_announced_.exchange(true)) {
      const std::string problem = missing_npu_problem("/");
      log(LogLevel::kWarning, "no NPU in use: programs run on the embedded simulator" +
                                  (problem.empty() ? problem : "; " + problem));
    }
    log(LogLevel::kInfo, streams_.name() + ": " + std::to_string(claim.claimed) +
                             " compiled operators; " + left + " stay on the CPU");
  }

 private:
  void log(LogLevel level, const std::string& text) const { log(options_.log_level, level, text); }
  static void log(LogLevel least, LogLevel level, const std::string& text) {
    if (level > least) return;
    std::fprintf(stderr, "rk3588 delegate: %s\n", text.c_str());
  }

  // One for the process: more than one interpreter says nothing new.
  static inline std::atomic<bool> simulator_announced_ = false;

  NativeOptions options_;
  NoCompiler no_compiler_;
  DeviceStreams streams_;
  std::shared_ptr<Device> verifier_;
};

}  // namespace

std::shared_ptr<Session> make_native_session(const NativeOptions& options, NoCompiler no_compiler) {
  return std::make_shared<NativeSession>(options, std::move(no_compiler));
}

}  // namespace rk3588
