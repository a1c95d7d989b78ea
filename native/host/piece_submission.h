// A submit of a kernel driver: its pieces run one after the other, each proved by its mark.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/device.h"
#include "host/run_mark.h"
#include "host/run_plan.h"

namespace rk3588 {

class PieceSubmission : public Submission {
 public:
  Span<const uint64_t> task_targets() const override { return targets_; }
  // Throws DeviceError, also where the mark of a piece is still there behind it.
  void run() override;

 protected:
  // `device`: its name, for messages. Throws StreamError.
  PieceSubmission(std::string device, const Submit& submit, const VerifiedJobs& verified);

  const std::string& device() const { return device_; }
  const std::vector<RunPiece>& pieces() const { return pieces_; }

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
  std::vector<RunPiece> pieces_;
  std::vector<Mark> marks_;  // by piece
  std::vector<uint64_t> targets_;
  RunMark pattern_;
};

}  // namespace rk3588
