// A submit for the mainline driver.
//
// The kernel runs the jobs of one open file on one core at a time, in order, and reports no failure
// of theirs: the host waits for each piece (PREP_BO) and looks for the mark that its last task
// overwrites.
#include <utility>
#include <vector>

#include "host/piece_submission.h"
#include "rocket/rocket_device.h"
#include "rocket/rocket_job.h"

namespace rk3588 {
namespace {

std::vector<RocketBuffer*> rocket_buffers(const std::vector<Buffer*>& buffers) {
  std::vector<RocketBuffer*> found;
  for (Buffer* buffer : buffers) found.push_back(static_cast<RocketBuffer*>(buffer));
  return found;
}

class RocketSubmission : public PieceSubmission {
 public:
  RocketSubmission(std::shared_ptr<RocketFile> file, const Submit& submit,
                   const VerifiedJobs& verified)
      : PieceSubmission("rocket " + file->file.path(), submit, verified),
        timeout_ms_(submit.timeout_ms != 0 ? submit.timeout_ms : kRocketTimeoutMs),
        file_(std::move(file)) {
    for (const RunPiece& piece : pieces()) {
      std::vector<RocketTask> tasks;
      for (const JobPart& part : piece.parts) {
        for (size_t t = part.first; t < part.first + part.count; ++t) {
          tasks.push_back({submit.jobs[part.job].tasks[t], verified[part.job][t]});
        }
      }
      jobs_.push_back(std::make_unique<RocketJob>(file_, tasks, rocket_buffers(submit.inputs),
                                                  rocket_buffers(submit.outputs)));
    }
  }

  void begin() override {
    file_->file.require_mine("SUBMIT");
    for (const auto& job : jobs_) job->wait_for_earlier(timeout_ms_);
  }

 private:
  void take_atom(Buffer& buffer, size_t) override {
    static_cast<RocketBuffer&>(buffer).hold(monotonic_ns() + timeout_ms_ * kNsPerMs);
  }

  int64_t run_piece(size_t piece) override {
    jobs_[piece]->submit(timeout_ms_);
    const int64_t start = monotonic_ns();
    jobs_[piece]->wait(timeout_ms_);
    return monotonic_ns() - start;
  }

  uint32_t timeout_ms_;
  std::shared_ptr<RocketFile> file_;
  std::vector<std::unique_ptr<RocketJob>> jobs_;  // by piece
};

}  // namespace

std::unique_ptr<Submission> make_rocket_submission(std::shared_ptr<RocketFile> file,
                                                   const Submit& submit,
                                                   const VerifiedJobs& verified) {
  return std::make_unique<RocketSubmission>(std::move(file), submit, verified);
}

}  // namespace rk3588
