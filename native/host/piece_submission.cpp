#include "host/piece_submission.h"

#include <utility>

#include "host/run_log.h"

namespace rk3588 {

PieceSubmission::PieceSubmission(std::string device, const Submit& submit,
                                 const VerifiedJobs& verified)
    : device_(std::move(device)), pieces_(plan_run(submit, verified)) {
  for (const RunPiece& piece : pieces_) {
    Mark& mark = marks_.emplace_back();
    if (piece.mark == kNoMark) continue;
    const auto at = find_address(submit.outputs, piece.mark);
    if (!at) throw StreamError("a job writes outside the outputs of its submit");
    const JobPart& last = piece.parts.back();
    mark = {submit.outputs[at->index], at->offset,
            submit.jobs[last.job].tasks[last.first + last.count - 1].layer};
  }
  for (const std::vector<VerifiedTask>& job : verified) {
    for (const VerifiedTask& task : job) targets_.push_back(task.target);
  }
}

void PieceSubmission::run() {
  int64_t waited_ns = 0;
  bool is_told = true;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Mark& mark = marks_[i];
    if (mark.buffer != nullptr) {
      pattern_.renew();
      take_atom(*mark.buffer, mark.offset);
      pattern_.put(mark.bytes());
      give_atom(*mark.buffer, mark.offset);
    }
    const int64_t ns = run_piece(i);
    is_told = is_told && ns != 0;
    waited_ns += ns;
    if (mark.buffer == nullptr) continue;
    take_atom(*mark.buffer, mark.offset);
    if (!pattern_.is_at(mark.bytes())) continue;
    throw DeviceError(device_ + ": nothing was written by " +
                      (mark.layer.empty() ? "the last task" : mark.layer) +
                      ": the kernel dropped the job or reset the NPU (see dmesg, run `doctor`)");
  }
  if (is_told) note_waited(waited_ns);
}

}  // namespace rk3588
