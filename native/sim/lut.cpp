#include "sim/lut.h"

namespace rk3588::sim {
namespace {

namespace r = regs::dpu;

// The only way of combining the tables that known programs use.
constexpr uint32_t kMuxBoth = 2;
// Index selects beyond this would leave no bits of a 32-bit value.
constexpr uint32_t kMaxIndexShift = 22;

// The registers of LE; those of LO have the same forms.
struct RangeRegisters {
  regs::Field index_select;
  uint16_t start;
  uint16_t end;
  uint16_t slope_scale;
  uint16_t slope_shift;
};

constexpr RangeRegisters kLe = {r::lut_info::kLutLeIndexSelect, r::lut_le_start::kOffset,
                                r::lut_le_end::kOffset, r::lut_le_slope_scale::kOffset,
                                r::lut_le_slope_shift::kOffset};
constexpr RangeRegisters kLo = {r::lut_info::kLutLoIndexSelect, r::lut_lo_start::kOffset,
                                r::lut_lo_end::kOffset, r::lut_lo_slope_scale::kOffset,
                                r::lut_lo_slope_shift::kOffset};

void decode_range(const BlockView& v, const RangeRegisters& at, LutRange* range) {
  namespace scale = r::lut_le_slope_scale;
  namespace shift = r::lut_le_slope_shift;
  range->index_shift = v.raw(at.index_select);
  range->start = static_cast<int32_t>(v.word(at.start));
  range->end = static_cast<int32_t>(v.word(at.end));
  const uint32_t scales = v.word(at.slope_scale);
  range->overflow_scale = static_cast<int16_t>(scale::kLutLeSlopeOflowScale.value(scales));
  range->underflow_scale = static_cast<int16_t>(scale::kLutLeSlopeUflowScale.value(scales));
  const uint32_t shifts = v.word(at.slope_shift);
  range->overflow_shift = shift::kLutLeSlopeOflowShift.raw(shifts);
  range->underflow_shift = shift::kLutLeSlopeUflowShift.raw(shifts);
  if (range->index_shift > kMaxIndexShift) {
    v.fault(fault::kInvalidValue, at.index_select, "selects index bits from ", range->index_shift,
            "; at most ", kMaxIndexShift, " leave any");
  }
  const int64_t span = int64_t{range->end} - range->start;
  const int64_t reach = int64_t{kLutEntries - 1} << range->index_shift;
  if (span < 0 || span > reach) {
    v.fault(fault::kInvalidValue, at.start, "the table goes from ", range->start, " to ",
            range->end, " but 513 entries ", int64_t{1} << range->index_shift, " apart reach over ",
            reach);
  }
}

int64_t inside(const LutConfig& c, const LutRange& range, int64_t x) {
  const int64_t distance = x - range.start;
  const auto index = static_cast<uint32_t>(distance >> range.index_shift);
  const int64_t fraction = distance & ((int64_t{1} << range.index_shift) - 1);
  const int64_t from = c.tables->at(range.table, index);
  if (fraction == 0 || !c.interpolates) return from;
  const int64_t to = c.tables->at(range.table, index + 1);
  return from + shift_rounded((to - from) * fraction, range.index_shift, c.ties);
}

int64_t outside(const LutConfig& c, const LutRange& range, int64_t x) {
  const auto slope = [&](int64_t distance, int16_t scale, uint32_t shift) {
    return shift_rounded(distance * scale, shift, c.ties);
  };
  if (x < range.start) {
    return c.tables->at(range.table, 0) +
           slope(x - range.start, range.underflow_scale, range.underflow_shift);
  }
  const auto last = static_cast<uint32_t>((int64_t{range.end} - range.start) >> range.index_shift);
  return c.tables->at(range.table, last) +
         slope(x - range.end, range.overflow_scale, range.overflow_shift);
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
  decode_range(v, kLe, &c.le);
  decode_range(v, kLo, &c.lo);
  return c;
}

int32_t look_up(const LutConfig& c, int32_t x) {
  const bool in_le = x >= c.le.start && x <= c.le.end;
  const bool in_lo = x >= c.lo.start && x <= c.lo.end;
  if (in_le && !(in_lo && c.hybrid_lo)) return saturate32(inside(c, c.le, x));
  if (in_lo) return saturate32(inside(c, c.lo, x));
  const bool is_above = x > c.le.end && x > c.lo.end;
  const bool is_below = x < c.le.start && x < c.lo.start;
  // Between the tables: above one and below the other; the hybrid priority decides (documented for
  // values in both, assumed for values in neither).
  const bool use_lo = is_above ? c.overflow_lo : is_below ? c.underflow_lo : c.hybrid_lo;
  return saturate32(outside(c, use_lo ? c.lo : c.le, x));
}

}  // namespace rk3588::sim
