// A program made ready to run: memory on a device, content uploaded, addresses filled in.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/device.h"
#include "host/run_progress.h"
#include "host/run_stats.h"
#include "program/host_values.h"
#include "program/program.h"
#include "span.h"

namespace rk3588 {

// In which way a run on a board was not the simulator's.
struct Shortfall {
  enum class Kind { kDiffers, kHangs } kind = Kind::kDiffers;
  std::string text;
};

class ProgramGate {
 public:
  // Told once what came of a program's first inference: nullptr where it was the simulator's.
  using Verdict = std::function<void(const Shortfall*)>;

  virtual ~ProgramGate() = default;
  // Throws DeviceError that says why the board must not run the program. Returns a function where
  // its first inference has to be compared with the simulator, else none. Thread-safe, as the
  // function is; neither takes Python's lock in the latter.
  virtual Verdict admit(const Program& program) = 0;
};

// Where and how programs of one interpreter run.
struct RunSettings {
  std::shared_ptr<Device> device;
  uint32_t timeout_ms = 0;  // 0: the device's default
  // Runs everything a second time (the simulator); results that differ are an error.
  std::shared_ptr<Device> verifier;
  // Threads of a device that computes on the host; 0: its own choice.
  unsigned threads = 0;
  // Who says what the device can do; nullptr: it is taken to do everything.
  std::shared_ptr<ProgramGate> gate;
  // 0: the verifier runs behind every run. Otherwise behind one in so many, in a thread of its own;
  // a difference is a line on stderr then, once.
  uint32_t verify_every = 0;
  // Told of the program's constants that the device has (copy_spending()), unless they are read
  // again: by the verifier, or for the first run.
  Spend spend = nullptr;
  // For run_on(): tasks may read what none of them has written.
  bool holds_content = false;
  // Runs what another one has run, to compare: submit_count() and the run log leave it out.
  bool is_verifier = false;
};

// A run that did not end, for all that the host can see. `task`: which of the program's, where that
// is known.
class UnfinishedRun : public DeviceError {
 public:
  UnfinishedRun(const std::string& text, std::optional<size_t> task)
      : DeviceError(text), task(task) {}
  std::optional<size_t> task;
};

// Dense host tensors in the order of the bindings, and where each is.
using Tensors = std::vector<std::vector<uint8_t>>;
std::vector<uint8_t*> places(Tensors* tensors);

// The content of the buffers that a run changes (SCRATCH, INPUT, OUTPUT), by BufferId.
using MemoryImage = std::array<std::vector<uint8_t>, kBufferCount>;

// Memory that others share in which the only input or the only output of a program lies; nullptr:
// it is the host's.
struct SharedEdges {
  std::shared_ptr<SharedMemory> input;
  std::shared_ptr<SharedMemory> output;
};

// One run in so many is verified with option verify=sample.
inline constexpr uint32_t kSampledRuns = 100;

class Executable {
 public:
  // By BufferId.
  using Buffers = std::array<std::shared_ptr<Buffer>, kBufferCount>;

  // Verifies `program` (delegate/npu/program.fbs), allocates and uploads; the bytes are not needed
  // afterwards. Throws ProgramError, DeviceError.
  Executable(Span<const uint8_t> program, const RunSettings& settings);
  // The same of a verified program, whose contents must still be there.
  Executable(const Program& program, const RunSettings& settings);
  ~Executable();

  const std::string& name() const { return name_; }
  const Device& device() const { return *device_; }
  const std::vector<Binding>& inputs() const { return inputs_; }
  const std::vector<Binding>& outputs() const { return outputs_; }
  // Those of its program and device.
  std::shared_ptr<RunCounters> counters() const;

  // One submit. A device whose driver may drop jobs without a word has to show that it ran.
  // `inputs` and `outputs` are dense host tensors of Binding::host_bytes() bytes
  // in the order of the bindings. Allocates nothing itself, but for the first one where the gate
  // wants it compared: that one, if it is not what the simulator computes, and all after it give
  // the simulator's results. Throws DeviceError. Thread-safe: one run at a time.
  RunTimes run(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs);

  // What the device itself reads and writes of `edges`: memory of tensors that it has in the host's
  // layout, where it reaches that memory and nobody compares its results. The rest of `edges` comes
  // back empty: it is to be converted. Throws DeviceError.
  SharedEdges in_place(SharedEdges edges);
  // The same as run() with memory that in_place() has given back; its tensors in `inputs` and
  // `outputs` are not looked at.
  RunTimes run_in_place(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs,
                        const SharedEdges& edges);

  const Submit& submit() const { return submit_; }
  const Buffers& buffers() const { return buffers_; }
  MemoryImage memory();
  // Runs the tasks on `memory`, which becomes what they leave. Throws DeviceError.
  void run_on(MemoryImage* memory);

 private:
  // `base` with other memory for its edges: all that neither says differently is base's.
  Executable(Executable& base, const SharedEdges& edges, Buffers buffers);
  Executable* placed(const SharedEdges& edges);
  std::unique_ptr<Executable> place(const SharedEdges& edges);
  void drop_released();
  Buffer* buffer(BufferId id) const { return buffers_[static_cast<size_t>(id)].get(); }
  void allocate_and_upload(const Program& program, Spend spend);
  void relocate(const std::vector<Reloc>& relocs);
  void fill_unused_surfaces();
  void make_room_between();
  bool writes_inputs(const Program& program) const;
  void build_jobs(const Program& program);
  void build_submit(bool writes_input);
  void prepare_submission();
  void give_inputs(Span<const uint8_t* const> inputs);
  void give_marked();
  void run_submission(Span<const uint8_t* const> inputs, RunTimes* times);
  RunTimes run_on_device(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs);
  RunTimes run_first(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs);
  // Throws what the device said, with where the run stopped.
  [[noreturn]] void fail(const DeviceError& error);
  MemoryImage content_of(std::initializer_list<BufferId> ids);
  void take_sample(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs);
  bool check_sample(Tensors* inputs, Tensors* outputs, const MemoryImage& memory);
  void run_verifier(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs);
  // How the outputs differ from the verifier's for the same inputs; "": they do not.
  std::string difference(Span<const uint8_t* const> inputs, Span<uint8_t* const> outputs);

  std::shared_ptr<Device> device_;
  std::string name_;
  std::vector<Binding> inputs_;
  std::vector<Binding> outputs_;
  Buffers buffers_;
  // The rule of the thread that loads the model: threads that run it later may have begun before
  // the runtime was loaded.
  const QuantizeRule quantize_rule_;
  // Addresses in its commands that other memory for its edges changes; empty where that cannot be.
  std::vector<Reloc> edge_relocs_;
  std::vector<std::pair<SharedEdges, std::unique_ptr<Executable>>> placed_;
  SharedEdges edges_;             // its own
  std::vector<uint8_t> between_;  // of the conversions
  Submit submit_;
  std::unique_ptr<Submission> submission_;
  std::unique_ptr<RunProgress> progress_;  // of devices that do not say it themselves
  bool was_run_ = false;                   // successfully
  ProgramGate::Verdict verdict_;           // on the first run, as long as there was none
  bool is_replaced_ = false;               // by the verifier, for good
  std::unique_ptr<Executable> verifier_;
  Tensors verified_;       // the verifier's outputs
  bool verifies_ = false;  // later runs, too
  uint32_t verify_every_ = 0;
  bool is_verifier_ = false;
  uint32_t unverified_ = 0;  // runs since the last sample
  std::shared_ptr<RunStatsHome> stats_ = RunStatsHome::of_process();
  pid_t owner_;
  std::mutex mutex_;
  std::future<bool> sample_;  // its thread uses the others: destroyed first, which waits for it
};

// Runs of executables in this process so far, but for those that verify others.
uint64_t submit_count();

}  // namespace rk3588
