#include "rknpu/rknpu_submission.h"

#include <string>

#include "host/run_log.h"
#include "host/run_mark.h"
#include "rknpu/rknpu_kicks.h"

namespace rk3588 {
namespace {

constexpr size_t kCacheLineBytes = 64;

// An atom that a job must overwrite.
struct Mark {
  RknpuBuffer* buffer;
  size_t offset;
  std::string layer;

  uint8_t* place() const { return buffer->bytes().data() + offset; }
  // Its line only. Buffers are page-aligned.
  void synchronise(uint32_t direction) const {
    buffer->synchronise(direction, offset / kCacheLineBytes * kCacheLineBytes, kCacheLineBytes);
  }
};

struct Piece {
  std::vector<RknpuKick> kicks;
  std::vector<Mark> marks;
};

class RknpuSubmission : public Submission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                  const Submit& submit, const VerifiedJobs& verified, const RunPlan& plan)
      : kicks_(std::move(file), submit, verified), choice_(choice), proof_(plan.only_mark()) {
    std::vector<uint32_t> first_task;
    uint32_t count = 0;
    for (const JobRef& job : submit.jobs) {
      first_task.push_back(count);
      count += static_cast<uint32_t>(job.tasks.size());
    }
    for (const std::vector<PlannedJob>& planned : plan.pieces) {
      Piece& piece = pieces_.emplace_back();
      for (const PlannedJob& job : planned) {
        const uint32_t base = first_task[job.job];
        const uint32_t first = base + static_cast<uint32_t>(job.first);
        for (const RknpuKick& kick : kicks_.plan(first, static_cast<uint32_t>(job.count))) {
          // Registers of a core that ran something else in between are no one's.
          if (kick.count != count) verify_alone(submit, job.job, kick.first - base, kick.count);
          piece.kicks.push_back(kick);
        }
        if (job.mark == kNoMark || job.mark == proof_) continue;
        const TaskRef& last = submit.jobs[job.job].tasks[job.first + job.count - 1];
        piece.marks.push_back(mark_at(submit, job.mark, last.layer));
      }
    }
  }

  Span<const uint64_t> task_targets() const override { return kicks_.targets(); }
  uint64_t proof() const override { return proof_; }

  void begin() override { kicks_.file()->file.require_mine("SUBMIT"); }

  void run() override {
    int64_t hardware_ns = 0;
    bool is_told = true;
    for (const Piece& piece : pieces_) {
      put_marks(piece);
      for (const RknpuKick& kick : piece.kicks) {
        const int64_t ns = kicks_.run(kick, choice_);
        is_told = is_told && ns != 0;
        hardware_ns += ns;
      }
      check_marks(piece);
    }
    if (is_told) note_waited(hardware_ns);
  }

 private:
  static Mark mark_at(const Submit& submit, uint64_t address, const std::string& layer) {
    const auto at = find_address(submit.outputs, address);
    if (!at) throw StreamError("a job writes outside the outputs of its submit");
    return {static_cast<RknpuBuffer*>(submit.outputs[at->index]), at->offset, layer};
  }

  // Nothing of the line may be lost: what others wrote there comes first.
  void put_marks(const Piece& piece) {
    mark_.renew();
    for (const Mark& mark : piece.marks) {
      mark.synchronise(rknpu::kSyncFromDevice);
      mark_.put(mark.place());
      mark.synchronise(rknpu::kSyncToDevice);
    }
  }

  void check_marks(const Piece& piece) const {
    for (const Mark& mark : piece.marks) {
      mark.synchronise(rknpu::kSyncFromDevice);
      if (!mark_.is_at(mark.place())) continue;
      throw DeviceError("rknpu " + kicks_.file()->file.path() + ": " + unwritten(mark.layer));
    }
  }

  RknpuKicks kicks_;
  RknpuCoreChoice choice_;
  uint64_t proof_;
  std::vector<Piece> pieces_;
  RunMark mark_;
};

}  // namespace

std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  const RknpuCoreChoice& choice,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified,
                                                  const RunPlan& plan) {
  return std::make_unique<RknpuSubmission>(std::move(file), choice, submit, verified, plan);
}

}  // namespace rk3588
