#include "rocket/rocket_submission.h"

#include <string>
#include <utility>
#include <vector>

#include "host/run_log.h"
#include "host/run_mark.h"
#include "rocket/rocket_job.h"

namespace rk3588 {
namespace {

// An atom that a piece must overwrite.
struct Mark {
  RocketBuffer* buffer = nullptr;
  size_t offset = 0;
  std::string layer;

  uint8_t* bytes() const { return buffer->bytes().data() + offset; }
};

struct Piece {
  std::unique_ptr<RocketJob> job;
  std::vector<Mark> marks;
};

std::vector<RocketBuffer*> rocket_buffers(const std::vector<Buffer*>& buffers) {
  std::vector<RocketBuffer*> found;
  for (Buffer* buffer : buffers) found.push_back(static_cast<RocketBuffer*>(buffer));
  return found;
}

class RocketSubmission : public Submission {
 public:
  RocketSubmission(std::shared_ptr<RocketFile> file, const Submit& submit,
                   const VerifiedJobs& verified, const RunPlan& plan)
      : timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kRocketTimeoutMs),
        proof_(plan.only_mark()),
        file_(std::move(file)) {
    for (const std::vector<PlannedJob>& planned : plan.pieces) add(planned, submit, verified);
    for (const std::vector<VerifiedTask>& job : verified) {
      for (const VerifiedTask& task : job) targets_.push_back(task.target);
    }
  }

  Span<const uint64_t> task_targets() const override { return targets_; }
  uint64_t proof() const override { return proof_; }

  void begin() override {
    file_->file.require_mine("SUBMIT");
    for (const Piece& piece : pieces_) piece.job->wait_for_earlier(timeout_ms_);
  }

  void run() override {
    mark_.renew();
    int64_t waited_ns = 0;
    for (const Piece& piece : pieces_) {
      for (const Mark& mark : piece.marks) {
        mark.buffer->hold(deadline());
        mark_.put(mark.bytes());
      }
      piece.job->submit(timeout_ms_);
      const int64_t start = monotonic_ns();
      piece.job->wait(timeout_ms_);
      waited_ns += monotonic_ns() - start;
      check_marks(piece);
    }
    note_waited(waited_ns);
  }

 private:
  int64_t deadline() const { return monotonic_ns() + timeout_ms_ * kNsPerMs; }

  void add(const std::vector<PlannedJob>& planned, const Submit& submit,
           const VerifiedJobs& verified) {
    Piece& piece = pieces_.emplace_back();
    std::vector<RocketTask> tasks;
    for (const PlannedJob& job : planned) {
      const std::vector<TaskRef>& source = submit.jobs[job.job].tasks;
      const size_t end = job.first + job.count;
      for (size_t t = job.first; t < end; ++t) tasks.push_back({source[t], verified[job.job][t]});
      if (job.mark == kNoMark || job.mark == proof_) continue;
      const auto at = find_address(submit.outputs, job.mark);
      if (!at) throw StreamError("a job writes outside the outputs of its submit");
      auto* const buffer = static_cast<RocketBuffer*>(submit.outputs[at->index]);
      piece.marks.push_back({buffer, at->offset, source[end - 1].layer});
    }
    piece.job = std::make_unique<RocketJob>(file_, tasks, rocket_buffers(submit.inputs),
                                            rocket_buffers(submit.outputs));
  }

  void check_marks(const Piece& piece) {
    for (const Mark& mark : piece.marks) {
      mark.buffer->hold(deadline());
      if (!mark_.is_at(mark.bytes())) continue;
      throw DeviceError("rocket " + file_->file.path() + ": " + unwritten(mark.layer));
    }
  }

  uint32_t timeout_ms_;
  uint64_t proof_;
  std::shared_ptr<RocketFile> file_;
  std::vector<Piece> pieces_;
  std::vector<uint64_t> targets_;
  RunMark mark_;
};

}  // namespace

std::unique_ptr<Submission> make_rocket_submission(std::shared_ptr<RocketFile> file,
                                                   const Submit& submit,
                                                   const VerifiedJobs& verified,
                                                   const RunPlan& plan) {
  return std::make_unique<RocketSubmission>(std::move(file), submit, verified, plan);
}

}  // namespace rk3588
