// The registers of the DPU's stages.
#include "sim/dpu.h"

namespace rk3588::sim {
namespace {

namespace r = regs::dpu;

constexpr uint32_t kAlgoMax = 0;
constexpr uint32_t kAlgoMin = 1;
constexpr uint32_t kAlgoAdd = 2;
constexpr uint32_t kAlgoMinus = 4;
constexpr uint32_t kSize8Bit = 1;
constexpr uint32_t kSize32Bit = 3;
// 1.0 in half precision: a converter of floating point operands that changes nothing.
constexpr int16_t kHalfOne = 0x3c00;
// OUT_CVT and EW shift with the low 6 bits only (observed); larger numbers are refused.
constexpr uint32_t kMaxShift = 63;

// BS and BN: registers at the same places, fields with the same bits, other names.
struct XNames {
  uint16_t cfg;
  uint16_t alu;
  uint16_t mul;
  uint16_t relux;
  std::string prefix;
  std::string field(const char* name) const { return prefix + name; }
};

Relu decode_relu(const BlockView& v, bool is_on, bool is_limited, uint16_t limit, Named enable) {
  if (is_limited && !is_on) {
    v.fault(fault::kUnsupportedFeature, enable,
            "an upper limit without ReLU is not modelled by this simulator");
  }
  return {is_on, is_limited, is_limited ? static_cast<int32_t>(v.word(limit)) : 0};
}

XStage decode_x(const BlockView& v, const XNames& n, uint32_t shift_negative) {
  XStage x;
  const uint32_t cfg = v.word(n.cfg);
  if (r::bs_cfg::kBsBypass.raw(cfg) != 0) return x;
  if (r::bs_cfg::kBsAluBypass.raw(cfg) == 0) {
    const uint32_t algo = r::bs_cfg::kBsAluAlgo.raw(cfg);
    if (algo != kAlgoAdd && algo != kAlgoMinus) {
      v.fault(fault::kInvalidValue, {n.cfg, n.field("ALU_ALGO").c_str()}, "is ", algo,
              "; known are 2 (add) and 4 (minus)");
    }
    x.alu_minus = algo == kAlgoMinus;
    x.alu = r::bs_cfg::kBsAluSrc.raw(cfg) != 0 ? Operand::kMemory : Operand::kRegister;
    if (x.alu == Operand::kRegister)
      x.alu_operand = r::bs_alu_cfg::kBsAluOperand.value(v.word(n.alu));
  }
  x.mul_prelu = r::bs_cfg::kBsMulPrelu.raw(cfg) != 0;
  if (r::bs_cfg::kBsMulBypass.raw(cfg) == 0) {
    const uint32_t mul = v.word(n.mul);
    if (r::bs_mul_cfg::kBsTruncateSrc.raw(mul) != 0) {
      v.fault(fault::kUnsupportedFeature, {n.mul, n.field("TRUNCATE_SRC").c_str()},
              "a shift from memory is not modelled by this simulator; supported is 0");
    }
    x.mul = r::bs_mul_cfg::kBsMulSrc.raw(mul) != 0 ? Operand::kMemory : Operand::kRegister;
    x.mul_operand = r::bs_mul_cfg::kBsMulOperand.value(mul);
    x.shift = r::bs_mul_cfg::kBsMulShiftValue.raw(mul);
    x.shift_negative = shift_negative;
  } else if (x.mul_prelu) {
    v.fault(fault::kInvalidValue, {n.cfg, n.field("MUL_PRELU").c_str()},
            "is 1 while the multiplier is bypassed; no known program does that");
  }
  x.relu =
      decode_relu(v, r::bs_cfg::kBsReluBypass.raw(cfg) == 0, r::bs_cfg::kBsReluxEn.raw(cfg) != 0,
                  n.relux, {n.cfg, n.field("RELUX_EN").c_str()});
  return x;
}

// Shifts have no meaning for floating point numbers.
void refuse_float_shift(const BlockView& v, const XStage& x, uint16_t offset) {
  if (x.mul == Operand::kOff || (x.shift == 0 && x.shift_negative == 0)) return;
  v.fault(fault::kUnsupportedFeature, offset, "a shift (", x.shift, " and ", x.shift_negative,
          ") of floating point products is not modelled by this simulator; supported is 0");
}

void decode_ew_operand(const BlockView& v, uint32_t cfg, EwStage* e) {
  e->source = r::ew_cfg::kEwOpSrc.raw(cfg) != 0 ? Operand::kMemory : Operand::kRegister;
  if (e->source == Operand::kRegister) {
    for (uint16_t i = 0; i < 8; ++i) {
      e->values[i] = static_cast<int32_t>(v.word(r::ew_op_value_0::kOffset + 4 * i));
    }
  } else {
    const uint32_t size = r::ew_cfg::kEdataSize.raw(cfg);
    if (size < kSize8Bit || size > kSize32Bit) {
      v.fault(fault::kUnsupportedFeature, r::ew_cfg::kEdataSize, "an operand of 4 bits (", size,
              ") is not modelled by this simulator; supported are 1 to 3 (8, 16 and 32 bits)");
    }
    e->operand_bytes = 1u << (size - kSize8Bit);
  }
  e->convert = r::ew_cfg::kEwOpCvtBypass.raw(cfg) == 0;
  const uint32_t scale = v.word(r::ew_cvt_scale_value::kOffset);
  if (e->convert) {
    if (r::ew_cfg::kEwCvtRound.raw(cfg) != 0) e->convert_ties = Ties::kAway;
    e->offset = v.value(r::ew_cvt_offset_value::kEwOpCvtOffset);
    e->scale = r::ew_cvt_scale_value::kEwOpCvtScale.value(scale);
    e->convert_shift = r::ew_cvt_scale_value::kEwOpCvtShift.raw(scale);
    if (r::ew_cfg::kEwCvtType.raw(cfg) == 0 && e->offset != 0) {
      v.fault(fault::kUnsupportedFeature, r::ew_cfg::kEwCvtType,
              "multiplying before adding an offset is not modelled by this simulator; supported "
              "is 1");
    }
  }
  e->shift = r::ew_cvt_scale_value::kEwTruncate.raw(scale);
  e->shift_negative = v.raw(r::data_format::kEwTruncateNeg);
  if (e->operation == EwOperation::kMul &&
      (e->shift > kMaxShift || e->shift_negative > kMaxShift)) {
    v.fault(fault::kInvalidValue, r::ew_cvt_scale_value::kEwTruncate, "shifts by ", e->shift,
            " and ", e->shift_negative, " must not exceed 63");
  }
}

EwOperation decode_ew_operation(const BlockView& v, uint32_t cfg) {
  if (r::ew_cfg::kEwOpType.raw(cfg) != 0) return EwOperation::kMul;
  switch (r::ew_cfg::kEwAluAlgo.raw(cfg)) {
    case kAlgoMax:
      return EwOperation::kMax;
    case kAlgoMin:
      return EwOperation::kMin;
    case kAlgoAdd:
      return EwOperation::kAdd;
    case kAlgoMinus:
      return EwOperation::kMinus;
    default:
      v.fault(fault::kUnsupportedFeature, r::ew_cfg::kEwAluAlgo, "operation ",
              r::ew_cfg::kEwAluAlgo.raw(cfg),
              " is not modelled by this simulator; supported are 0 (max), 1 (min), 2 (add) "
              "and 4 (minus)");
  }
}

}  // namespace

XStage decode_bs(const BlockView& v, bool in_float) {
  const XNames names{r::bs_cfg::kOffset, r::bs_alu_cfg::kOffset, r::bs_mul_cfg::kOffset,
                     r::bs_relux_cmp_value::kOffset, "BS_"};
  const XStage x = decode_x(v, names, v.raw(r::data_format::kBsMulShiftValueNeg));
  if (in_float) refuse_float_shift(v, x, r::bs_mul_cfg::kOffset);
  return x;
}

XStage decode_bn(const BlockView& v, bool in_float) {
  const XNames names{r::bn_cfg::kOffset, r::bn_alu_cfg::kOffset, r::bn_mul_cfg::kOffset,
                     r::bn_relux_cmp_value::kOffset, "BN_"};
  XStage x = decode_x(v, names, v.raw(r::data_format::kBnMulShiftValueNeg));
  x.multiplies_first = true;
  if (x.mul_prelu && x.alu != Operand::kOff) {
    v.fault(fault::kUnsupportedFeature, r::bn_cfg::kBnMulPrelu,
            "with a summand is not modelled by this simulator: whether values that are not "
            "multiplied meet it is not known; supported is BN_ALU_BYPASS = 1");
  }
  if (in_float) refuse_float_shift(v, x, r::bn_mul_cfg::kOffset);
  return x;
}

EwStage decode_ew(const BlockView& v, bool in_float) {
  EwStage e;
  const uint32_t cfg = v.word(r::ew_cfg::kOffset);
  if (r::ew_cfg::kEwBypass.raw(cfg) != 0) return e;
  v.only(r::ew_cfg::kEwEqualEn, 0, "the comparison mode");
  v.only(r::ew_cfg::kEwBinaryEn, 0, "the binary mode");
  if (r::ew_cfg::kEwOpBypass.raw(cfg) == 0) {
    e.operation = decode_ew_operation(v, cfg);
    e.mul_prelu = r::ew_cfg::kEwMulPrelu.raw(cfg) != 0;
    if (e.mul_prelu && e.operation != EwOperation::kMul) {
      v.fault(fault::kInvalidValue, r::ew_cfg::kEwMulPrelu,
              "is 1 without a multiplication; no known program does that");
    }
    decode_ew_operand(v, cfg, &e);
    const bool is_identity = !e.convert || (e.offset == 0 && e.convert_shift == 0 &&
                                            (e.scale == 1 || e.scale == kHalfOne));
    if (in_float && !is_identity) {
      v.fault(fault::kUnsupportedFeature, r::ew_cvt_scale_value::kOffset,
              "a conversion of floating point operands is not modelled by this simulator; "
              "supported are offset 0, scale 1 and shift 0");
    }
  }
  e.relu =
      decode_relu(v, r::ew_cfg::kEwReluBypass.raw(cfg) == 0, r::ew_cfg::kEwReluxEn.raw(cfg) != 0,
                  r::ew_relux_cmp_value::kOffset, r::ew_cfg::kEwReluxEn);
  return e;
}

OutStage decode_out(const BlockView& v, const DpuConfig& c) {
  OutStage o;
  const bool to_half = c.out_element == Element::kFp16;
  if (c.computes_in_float()) {
    v.only(r::out_cvt_scale::kFp32tofp16En, to_half ? 1 : 0,
           "another conversion of the output's type");
  } else if (!to_half) {
    v.only(r::out_cvt_scale::kFp32tofp16En, 0, "conversion to fp16");
  }
  v.only(r::out_cvt_shift::kCvtType, 0, "adding before multiplying");
  if (!is_float(c.out_element)) {
    v.only(r::out_cvt_shift::kMinusExp, 0, "an exponent of the floating point path");
  }
  o.minus_exp = v.raw(r::out_cvt_shift::kMinusExp);
  o.offset = v.value(r::out_cvt_offset::kOutCvtOffset);
  o.scale = v.value(r::out_cvt_scale::kOutCvtScale);
  o.shift = v.raw(r::out_cvt_shift::kOutCvtShift);
  if (v.raw(r::out_cvt_shift::kCvtRound) != 0) o.ties = Ties::kAway;
  if (o.shift > kMaxShift) {
    v.fault(fault::kInvalidValue, r::out_cvt_shift::kOutCvtShift, "is ", o.shift,
            "; shifts go up to 63");
  }
  if (c.computes_in_float() && !c.lut.is_on && (o.shift != 0 || o.offset != 0)) {
    v.fault(fault::kUnsupportedFeature, r::out_cvt_shift::kOutCvtShift,
            "a shift or an offset of floating point results other than a table's is not modelled "
            "by this simulator; supported is 0");
  }
  return o;
}

}  // namespace rk3588::sim
