// The lookup tables of the DPU's EW stage: two tables of 513 int16, written through an access port,
// read with linear interpolation.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

#include "sim/register_file.h"
#include "sim/rounding.h"

namespace rk3588::sim {

inline constexpr uint32_t kLutEntries = 513;

// The memory of the tables. It is not part of the register groups: what a task uploads stays until
// the next upload.
class LutTables {
 public:
  // LUT_ACCESS_CFG and LUT_ACCESS_DATA. Throws Fault for a read access and for more entries than a
  // table has.
  void configure(uint32_t access_cfg, const Position& where);
  void push(uint32_t data, const Position& where);
  bool is_complete(int table) const { return written_[table].all(); }
  void begin_task() { loaded_ = {}; }
  // The current task wrote every entry.
  bool is_whole_load() const { return loaded_[0].all() && loaded_[1].all(); }
  int16_t at(int table, uint32_t index) const { return values_[table][index]; }

 private:
  std::array<std::array<int16_t, kLutEntries>, 2> values_{};
  std::array<std::bitset<kLutEntries>, 2> written_{};
  std::array<std::bitset<kLutEntries>, 2> loaded_{};  // by the current task
  int table_ = 0;
  uint32_t next_ = kLutEntries;  // no access before a configuration
};

// One table's range [start, end], the step between entries (2^index_shift) and what lies outside.
struct LutRange {
  int table = 0;
  int32_t start = 0;
  int32_t end = 0;
  uint32_t index_shift = 0;
  int16_t underflow_scale = 0;
  uint32_t underflow_shift = 0;
  int16_t overflow_scale = 0;
  uint32_t overflow_shift = 0;
};

struct LutConfig {
  bool is_on = false;
  LutRange le{0};
  LutRange lo{1};
  bool hybrid_lo = false;     // LO wins where both tables hold the value
  bool overflow_lo = false;   // LO's slope above both tables
  bool underflow_lo = false;  // LO's slope below both
  Ties ties = Ties::kEven;    // of interpolation and slopes
  bool interpolates = true;
  const LutTables* tables = nullptr;
};

// Reads and checks the registers; throws Fault.
LutConfig decode_lut(const BlockView& view);

// The value at `x`. Interpolation and slopes round to nearest, ties to even (assumed: the other
// shifts of the DPU do so by default).
int32_t look_up(const LutConfig& config, int32_t x);

}  // namespace rk3588::sim
