// A submit of a kernel driver: its pieces run one after the other, each proved by its mark.
//
// Kernel drivers drop or reset jobs without a word, and memory then holds what earlier runs left.
// So before a piece runs, an atom gets a mark that its last task must overwrite. No other task of
// the piece writes that atom, or an earlier task would remove the mark, and none reads it. Tasks
// run in order, so the last one that ran vouches for the others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/device.h"
#include "host/run_mark.h"
#include "host/stream_verifier.h"

namespace rk3588 {

// Tasks [first, first + count) of a job of the submit.
struct JobPart {
  size_t job = 0;
  size_t first = 0;
  size_t count = 0;
};

class PieceSubmission : public Submission {
 public:
  Span<const uint64_t> task_targets() const override { return targets_; }
  // Throws DeviceError, also where the mark of a piece is still there behind it.
  int64_t run() override;

 protected:
  // `device`: its name, for messages. Splits a verified submit into as few pieces as its marks
  // allow, in order: mostly one. A second one is needed where earlier tasks write all that the last
  // one writes: spare lanes in front of it, or memory that tensors share in time. Pieces are never
  // cut in front of a task that needs what the one before it left in the core. Nothing proves a
  // task that works in place: throws StreamError, or, where outputs hold content before the run,
  // all tasks are one piece without a mark.
  PieceSubmission(std::string device, const Submit& submit, const VerifiedJobs& verified);

  const std::string& device() const { return device_; }
  // Tasks that run one after the other.
  const std::vector<std::vector<JobPart>>& pieces() const { return pieces_; }

 private:
  // The atom that a piece must overwrite.
  struct Mark {
    Buffer* buffer = nullptr;  // nullptr: nothing proves the piece
    size_t offset = 0;
    std::string layer;
    uint8_t* bytes() const { return buffer->bytes().data() + offset; }
  };

  // Makes 16 bytes of a buffer the host's, so that it may read and write them.
  virtual void take_atom(Buffer& buffer, size_t offset) = 0;
  // Makes them the device's again, where running a piece does not.
  virtual void give_atom(Buffer&, size_t) {}
  // Runs a piece; returns when it is done. The result: nanoseconds that this took behind handing it
  // over, 0 if nobody tells.
  virtual int64_t run_piece(size_t piece) = 0;

  std::string device_;
  std::vector<std::vector<JobPart>> pieces_;
  std::vector<Mark> marks_;  // by piece
  std::vector<uint64_t> targets_;
  RunMark pattern_;
};

}  // namespace rk3588
