// CBUF: banks shared by features and weights; what a task needs, and what the last one left.
#pragma once

#include "sim/cna.h"

namespace rk3588::sim {

// The content of CBUF between tasks. The bytes themselves stay in memory: `is_stale` tells that a
// later task overwrote them there, so that they cannot be reproduced from it.
class Cbuf {
 public:
  // Checks the task's banks and its reuse of earlier content against what is there, then records
  // what the task leaves. Throws Fault CbufOverrun, ReuseMismatch, InvalidValue.
  void load(const CnaConfig& config, const BlockView& view);
  // Must be called with every range that a task wrote.
  void note_write(const AddressPattern& pattern);

 private:
  struct Content {
    bool is_valid = false;
    bool is_stale = false;
    CnaConfig config;
  };
  void check_banks(const CnaConfig& config, const BlockView& view) const;
  void check_packed(const CnaConfig& config, const BlockView& view) const;
  void check_weight_reuse(const CnaConfig& config, const BlockView& view) const;
  void check_data_reuse(const CnaConfig& config, const BlockView& view) const;

  Content weights_;
  Content data_;
};

}  // namespace rk3588::sim
