// A submit for the vendor's driver, in one ioctl for each kick (rknpu_kicks.h).
#include "host/piece_submission.h"
#include "rknpu/rknpu_device.h"
#include "rknpu/rknpu_kicks.h"

namespace rk3588 {
namespace {

constexpr size_t kCacheLineBytes = 64;

// The line of a place in a buffer. Buffers are page-aligned.
void synchronise_line(Buffer& buffer, size_t offset, uint32_t direction) {
  static_cast<RknpuBuffer&>(buffer).synchronise(
      direction, offset / kCacheLineBytes * kCacheLineBytes, kCacheLineBytes);
}

class RknpuSubmission : public PieceSubmission {
 public:
  RknpuSubmission(std::shared_ptr<RknpuFile> file, const RknpuCoreChoice& choice,
                  const Submit& submit, const VerifiedJobs& verified)
      : PieceSubmission("rknpu " + file->file.path(), submit, verified),
        kicks_(std::move(file), submit, verified),
        choice_(choice) {
    std::vector<uint32_t> first_task;
    uint32_t count = 0;
    for (const JobRef& job : submit.jobs) {
      first_task.push_back(count);
      count += static_cast<uint32_t>(job.tasks.size());
    }
    for (const RunPiece& piece : pieces()) {
      std::vector<RknpuKick>& planned = kicks_of_piece_.emplace_back();
      for (const JobPart& part : piece.parts) {
        const uint32_t base = first_task[part.job];
        const uint32_t first = base + static_cast<uint32_t>(part.first);
        for (const RknpuKick& kick : kicks_.plan(first, static_cast<uint32_t>(part.count))) {
          // Registers of a core that ran something else in between are no one's.
          if (kick.count != count) verify_alone(submit, part.job, kick.first - base, kick.count);
          planned.push_back(kick);
        }
      }
    }
  }

  void begin() override { kicks_.file()->file.require_mine("SUBMIT"); }

 private:
  // Nothing of the line may be lost: what others wrote there comes first.
  void take_atom(Buffer& buffer, size_t offset) override {
    synchronise_line(buffer, offset, rknpu::kSyncFromDevice);
  }
  void give_atom(Buffer& buffer, size_t offset) override {
    synchronise_line(buffer, offset, rknpu::kSyncToDevice);
  }

  int64_t run_piece(size_t piece) override {
    int64_t hardware_ns = 0;
    bool is_told = true;
    for (const RknpuKick& kick : kicks_of_piece_[piece]) {
      const int64_t ns = kicks_.run(kick, choice_);
      is_told = is_told && ns != 0;
      hardware_ns += ns;
    }
    return is_told ? hardware_ns : 0;
  }

  RknpuKicks kicks_;
  RknpuCoreChoice choice_;
  std::vector<std::vector<RknpuKick>> kicks_of_piece_;
};

}  // namespace

std::unique_ptr<Submission> make_rknpu_submission(std::shared_ptr<RknpuFile> file,
                                                  const RknpuCoreChoice& choice,
                                                  const Submit& submit,
                                                  const VerifiedJobs& verified) {
  return std::make_unique<RknpuSubmission>(std::move(file), choice, submit, verified);
}

}  // namespace rk3588
