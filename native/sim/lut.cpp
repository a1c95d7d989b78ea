#include "sim/lut.h"

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::dpu;

constexpr int kLe = 0;
constexpr int kLo = 1;
// The only way of combining the tables that known programs use.
constexpr uint32_t kMuxBoth = 2;
// Index selects beyond this would leave no bits of a 32-bit value.
constexpr uint32_t kMaxIndexShift = 22;

void check_range(const BlockView& v, uint16_t offset, const char* name, const LutRange& range) {
  if (range.index_shift > kMaxIndexShift) {
    v.fault(fault::kInvalidValue, {r::lut_info::kOffset, name}, "selects index bits from ",
            range.index_shift, "; at most ", kMaxIndexShift, " leave any");
  }
  const int64_t span = int64_t{range.end} - range.start;
  const int64_t reach = int64_t{kLutEntries - 1} << range.index_shift;
  if (span < 0 || span > reach) {
    v.fault(fault::kInvalidValue, offset, "the table goes from ", range.start, " to ", range.end,
            " but 513 entries ", int64_t{1} << range.index_shift, " apart reach over ", reach);
  }
}

int64_t inside(const LutConfig& c, int table, const LutRange& range, int64_t x) {
  const int64_t distance = x - range.start;
  const auto index = static_cast<uint32_t>(distance >> range.index_shift);
  const int64_t fraction = distance & ((int64_t{1} << range.index_shift) - 1);
  const int64_t from = c.tables->at(table, index);
  if (fraction == 0) return from;
  const int64_t to = c.tables->at(table, index + 1);
  return from + shift_half_even((to - from) * fraction, range.index_shift);
}

int64_t above(const LutConfig& c, int table, const LutRange& range, int64_t x) {
  const auto last = static_cast<uint32_t>((int64_t{range.end} - range.start) >> range.index_shift);
  return c.tables->at(table, last) +
         shift_half_even((x - range.end) * range.overflow_scale, range.overflow_shift);
}

int64_t below(const LutConfig& c, int table, const LutRange& range, int64_t x) {
  return c.tables->at(table, 0) +
         shift_half_even((x - range.start) * range.underflow_scale, range.underflow_shift);
}

}  // namespace

void LutTables::configure(uint32_t access_cfg, const Position& where) {
  const bool is_write = r::lut_access_cfg::kLutAccessType.raw(access_cfg) != 0;
  // A plain 0 is what full register sets write; reading back makes no sense in a stream.
  if (!is_write) {
    if (access_cfg != 0) {
      raise(fault::kInvalidValue, where, "DPU.LUT_ACCESS_CFG.LUT_ACCESS_TYPE",
            "is 0 (read) with table or address ", hex(access_cfg), "; a stream can only write");
    }
    next_ = kLutEntries;
    return;
  }
  table_ = static_cast<int>(r::lut_access_cfg::kLutTableId.raw(access_cfg));
  next_ = r::lut_access_cfg::kLutAddr.raw(access_cfg);
  if (next_ >= kLutEntries) {
    raise(fault::kInvalidValue, where, "DPU.LUT_ACCESS_CFG.LUT_ADDR", "is ", next_,
          "; a table has 513 entries");
  }
}

void LutTables::push(uint32_t data, const Position& where) {
  if (next_ >= kLutEntries) {
    // Full register sets write one 0 to the port without an access configured.
    if (data == 0) return;
    raise(fault::kInvalidValue, where, "DPU.LUT_ACCESS_DATA", "value ", hex(data),
          " goes behind the 513 entries of the table, or no LUT_ACCESS_CFG "
          "with write access comes before it");
  }
  // 16 bits count; the others are 0 or repeat the sign.
  const auto entry = static_cast<int16_t>(data);
  if (data > 0xffff && static_cast<int32_t>(data) != entry) {
    complain(fault::kReservedBits, where, "DPU.LUT_ACCESS_DATA", "value ", hex(data),
             " is no entry of 16 bits, extended by its sign or by zeros");
  }
  values_[table_][next_] = entry;
  written_[table_].set(next_);
  loaded_[table_].set(next_);
  ++next_;
}

LutConfig decode_lut(const BlockView& v) {
  v.only(r::lut_cfg::kLutExpandEn, 0, "one large table");
  v.only(r::lut_cfg::kLutRoadSel, 0, "the second road");
  v.only(r::lut_cfg::kLutLoLeMux, kMuxBoth, "another use of the tables");
  LutConfig c;
  c.is_on = true;
  c.hybrid_lo = v.raw(r::lut_cfg::kLutHybridPriority) != 0;
  c.overflow_lo = v.raw(r::lut_cfg::kLutOflowPriority) != 0;
  c.underflow_lo = v.raw(r::lut_cfg::kLutUflowPriority) != 0;
  c.le.index_shift = v.raw(r::lut_info::kLutLeIndexSelect);
  c.lo.index_shift = v.raw(r::lut_info::kLutLoIndexSelect);
  c.le.start = static_cast<int32_t>(v.word(r::lut_le_start::kOffset));
  c.le.end = static_cast<int32_t>(v.word(r::lut_le_end::kOffset));
  c.lo.start = static_cast<int32_t>(v.word(r::lut_lo_start::kOffset));
  c.lo.end = static_cast<int32_t>(v.word(r::lut_lo_end::kOffset));
  namespace le_scale = r::lut_le_slope_scale;
  namespace le_shift = r::lut_le_slope_shift;
  namespace lo_scale = r::lut_lo_slope_scale;
  namespace lo_shift = r::lut_lo_slope_shift;
  c.le.overflow_scale = v.value(le_scale::kLutLeSlopeOflowScale);
  c.le.underflow_scale = v.value(le_scale::kLutLeSlopeUflowScale);
  c.le.overflow_shift = v.raw(le_shift::kLutLeSlopeOflowShift);
  c.le.underflow_shift = v.raw(le_shift::kLutLeSlopeUflowShift);
  c.lo.overflow_scale = v.value(lo_scale::kLutLoSlopeOflowScale);
  c.lo.underflow_scale = v.value(lo_scale::kLutLoSlopeUflowScale);
  c.lo.overflow_shift = v.raw(lo_shift::kLutLoSlopeOflowShift);
  c.lo.underflow_shift = v.raw(lo_shift::kLutLoSlopeUflowShift);
  check_range(v, r::lut_le_start::kOffset, "LUT_LE_INDEX_SELECT", c.le);
  check_range(v, r::lut_lo_start::kOffset, "LUT_LO_INDEX_SELECT", c.lo);
  return c;
}

int32_t look_up(const LutConfig& c, int32_t x) {
  const bool in_le = x >= c.le.start && x <= c.le.end;
  const bool in_lo = x >= c.lo.start && x <= c.lo.end;
  if (in_le && !(in_lo && c.hybrid_lo)) return saturate32(inside(c, kLe, c.le, x));
  if (in_lo) return saturate32(inside(c, kLo, c.lo, x));
  const bool is_above = x > c.le.end && x > c.lo.end;
  const bool is_below = x < c.le.start && x < c.lo.start;
  // Between the tables: above one and below the other; the hybrid priority decides (documented for
  // values in both, assumed for values in neither).
  const bool use_lo = is_above ? c.overflow_lo : is_below ? c.underflow_lo : c.hybrid_lo;
  const LutRange& range = use_lo ? c.lo : c.le;
  const int table = use_lo ? kLo : kLe;
  return saturate32(x > range.end ? above(c, table, range, x) : below(c, table, range, x));
}

}  // namespace rk3588::sim
