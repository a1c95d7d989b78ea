#include "program_home.h"

#include <atomic>
#include <cstdio>

#include "evidence/form_evidence.h"
#include "host/devices.h"
#include "host/npu_nodes.h"
#include "host/run_stats.h"

namespace rk3588 {
namespace {

void log_line(LogLevel least, LogLevel level, const std::string& text) {
  if (level > least) return;
  std::fprintf(stderr, "rk3588 delegate: %s\n", text.c_str());
}

std::atomic<bool> g_was_announced{false};

}  // namespace

ProgramHome::ProgramHome(const NativeOptions& options)
    : options_(options),
      streams_(open_device(options.device, {options.cores, options.strict, options.chip})),
      verifier_(options.repeats_runs() ? make_simulator_device() : nullptr) {
  if (options.stats_dir != "off") RunStatsHome::publish_in(options.stats_dir);
  const std::string problem = take_keeper_problem();
  if (!problem.empty()) log(LogLevel::kInfo, problem);
}

ProgramHome::~ProgramHome() {
  const std::string text = stats_line(RunStatsHome::of_process()->take());
  if (!text.empty()) log(LogLevel::kInfo, text);
}

RunSettings ProgramHome::settings(unsigned threads) {
  std::shared_ptr<Device> device = streams_.next();
  const EvidenceSettings evidence{options_.verify == "off" ? "off" : "auto", options_.cache_dir,
                                  options_.cores, options_.timeout_ms};
  // The gate may outlive this object.
  std::shared_ptr<ProgramGate> gate =
      FormEvidence::of(device, evidence, [level = options_.log_level](const std::string& text) {
        log_line(level, LogLevel::kWarning, text);
      });
  return {std::move(device), options_.timeout_ms, verifier_,
          threads,           std::move(gate),     options_.verify == "sample" ? kSampledRuns : 0};
}

void ProgramHome::log(LogLevel level, const std::string& text) const {
  log_line(options_.log_level, level, text);
}

void ProgramHome::announce_simulator() const {
  if (options_.device != "auto" || device_name() != "simulator") return;
  if (g_was_announced.exchange(true)) return;
  const std::string problem = missing_npu_problem("/");
  log(LogLevel::kWarning, "no NPU in use: programs run on the embedded simulator" +
                              (problem.empty() ? problem : "; " + problem));
}

void ProgramHome::simulator_was_announced() { g_was_announced = true; }

}  // namespace rk3588
