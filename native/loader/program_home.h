// Where programs run that were compiled before: a device, what guards it, and who is told.
#pragma once

#include <memory>
#include <string>

#include "host/device.h"
#include "native_options.h"
#include "program/executable.h"

namespace rk3588 {

class ProgramHome {
 public:
  // Opens the device that the options name. Throws DeviceError.
  explicit ProgramHome(const NativeOptions& options);
  // Logs the counters of the process.
  ~ProgramHome();
  ProgramHome(const ProgramHome&) = delete;
  ProgramHome& operator=(const ProgramHome&) = delete;

  const NativeOptions& options() const { return options_; }
  std::string device_name() const { return streams_.name(); }
  // How the programs of one graph run: one after the other, those of several graphs at once.
  // `threads`: see RunSettings. Throws DeviceError.
  RunSettings settings(unsigned threads);
  // A line on stderr, if the option log_level asks for it. Thread-safe.
  void log(LogLevel level, const std::string& text) const;
  // Says, once in a process, that programs run on the simulator though nobody asked for it.
  void announce_simulator() const;
  // Somebody else has said it.
  static void simulator_was_announced();

 private:
  NativeOptions options_;
  DeviceStreams streams_;
  std::shared_ptr<Device> verifier_;
};

}  // namespace rk3588
