// The evidence of a board: which programs it computes right, and which forms of their tasks.
//
// Before a program runs on an NPU it runs there once on generated inputs, and on the simulator, and
// its results must be the same. If they are not, its tasks run one by one (isolation.h), and their
// forms, or what they rely on, are switched off on this board: whoever compiles does without them.
// The first inference is compared, too, before its results are given. What was found is kept
// (Record) for this board, driver, kernel and version.
//
// A run that does not end may be chance: what is to blame is suspected, and not used in this
// process. It is switched off once it fails in another process as well, and forgiven if it does
// not.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "evidence/record.h"
#include "host/device.h"
#include "program/executable.h"

namespace rk3588 {

class BoardEvidence;
class Executable;
struct TaskFault;

struct EvidenceSettings {
  std::string prove = "auto";  // "auto": of devices with a kernel driver; "off"; "always": of all
  std::string cache_dir = "auto";  // "auto" and "off": the user's own folder
  std::string cores = "auto";
  uint32_t timeout_ms = 0;  // 0: the device's default
};

// A form, a relation between tasks, or a whole program by its id that a board must not be given:
// its name, and "failed: ...", "hung: ..." or "suspected: ...".
using MissingForm = std::pair<std::string, std::string>;

class FormEvidence : public ProgramGate {
 public:
  using Warn = std::function<void(const std::string&)>;

  // nullptr where nothing is to be compared. `warn` gets whole sentences, from any thread that
  // calls the members.
  static std::shared_ptr<FormEvidence> of(std::shared_ptr<Device> device,
                                          const EvidenceSettings& settings, Warn warn);

  // Returns the forms of the program that this board must not be given. Runs an unknown one. Throws
  // DeviceError if the device fails for a reason that says nothing about the program.
  std::vector<MissingForm> missing(const Program& program);
  Verdict admit(const Program& program) override;

  // By name: of a program "ran" or "verified"; of all "failed: ...", "hung: ...", "suspected: ...";
  // of a form or relation "proved", a form's settings behind it.
  std::map<std::string, std::string> states();
  // Keeps what programs that were right have: states by name of a form or relation. Those that are
  // switched off stay so.
  void prove(const std::map<std::string, std::string>& states);
  void forget();
  std::string record_path() const;
  // Why nothing is kept, or "".
  std::string problem();

 private:
  FormEvidence(std::shared_ptr<Device> device, const EvidenceSettings& settings, Warn warn);

  std::vector<MissingForm> refused(const Program& program) const;
  // `before`: the state of the program.
  void examine(const Program& program, const std::string& before);
  void isolate(const Program& program, Executable* simulated, const std::string& text);
  void blame(const Program& program, const std::vector<TaskFault>& faults);
  std::string where() const;
  void tell(const std::vector<MissingForm>& found);

  std::shared_ptr<Device> device_;
  uint32_t timeout_ms_;
  Warn warn_;
  std::shared_ptr<BoardEvidence> board_;  // of the process
};

}  // namespace rk3588
