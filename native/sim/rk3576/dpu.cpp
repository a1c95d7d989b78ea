// RK3576's DPU and its readers, and the chip's entry in the table of register maps.
#include <array>
#include <iterator>
#include <utility>

#include "chip/registers_rk3576_gen.h"
#include "sim/rk3576/decode.h"

namespace rk3588::sim::rk3576 {
namespace {

namespace dpu = regs::rk3576::dpu;
namespace rdma = regs::rk3576::dpu_rdma;

// The known kinds of tasks. Behind the two convolutions: a sum or a product of two maps, a copy, a
// function from the tables, and a load of these. Without a convolution the numbers of a stage lie
// in a record in memory: a summand, twice, and of sums and functions a multiplier and shifts.
enum Kind : size_t { kDense, kDepthwise, kSum, kProduct, kCopy, kLookUp, kLoad, kKinds };

constexpr uint32_t kSummandBytes = 2 * kScalarBytes;
constexpr int32_t kTableEnd = 512 * 32;
constexpr uint32_t kIndexShift = 5;
constexpr uint32_t kBnOff = 0x903;
constexpr uint32_t kBnClamps = 0x902;

// A register of switches and what it holds, by kind.
struct Switch {
  uint16_t offset;
  std::array<uint32_t, kKinds> values;
};
constexpr uint32_t kAny = 0xffffffff;  // what is not constant is checked elsewhere
constexpr Switch kEwCfg = {
    dpu::ew_cfg::kOffset,
    {0x10041c1, 0x10041c1, 0x8002c0c0, 0x810f4094, 0x10041c1, 0x1004140, 0x10041c1}};
constexpr Switch kLutCfg = {dpu::lut_cfg::kOffset, {0, 0, 0, 0, 0, 0x2000006, 0xff0000}};
constexpr Switch kDpuSwitches[] = {
    {dpu::feature_mode_cfg::kOffset, {0x40000004, 0x4000000c, 5, 5, 5, 5, 5}},
    {dpu::wdma_mode::kOffset, {0x120080, 0x100092, 0x100012, 0x100012, 0x100012, 0x53, 0x53}},
    {dpu::bs_cfg::kOffset, {1, 0, 0, 2, 2, 2, 2}},
    {dpu::bs_ow_cfg::kOffset, {kAny, kAny, 0, 0x20000, 0x20000, 0x20000, 0x20000}},
    {dpu::bn_cfg::kOffset, {kAny, kAny, kBnOff, kBnOff, kBnOff, 0x20, kBnOff}},
    kEwCfg,
    {dpu::undocumented_40c0::kOffset,
     {0x4440100, 0x4440100, 0x4440000, 0x4440000, 0x4440000, 0x4440000, 0x4440000}},
    {dpu::undocumented_40cc::kOffset, {0, 0, 0, 0, 0, 0x10, 0}},
    {dpu::undocumented_40d0::kOffset,
     {0x40ffff, 0x40ffff, 0x40ffff, 0x40ffff, 0x40ffff, 0x40ffff, 0x40ffff}},
    {dpu::lut_access_cfg::kOffset, {0, 0, kAny, kAny, kAny, kAny, kAny}},
    {dpu::lut_access_data::kOffset, {0, 0, kAny, kAny, kAny, kAny, kAny}},
    kLutCfg,
    {dpu::lut_info::kOffset, {0, 0, 0, 0, 0, 0x50500, 0}},
};
constexpr Switch kBsReader = {rdma::rdma_brdma_cfg::kOffset, {0x710, 0x510, 0x1a, 2, 2, 0, 0}};
constexpr Switch kBnReader = {rdma::rdma_nrdma_cfg::kOffset, {0, 0, 0, 0, 0, 0x1a, 0}};
constexpr Switch kRdmaSwitches[] = {
    kBsReader,
    kBnReader,
    {rdma::rdma_erdma_cfg::kOffset, {0x41, 0x41, 0x40000044, 0x40000044, 0x41, 0x41, 1}},
    {rdma::rdma_feature_mode_cfg::kOffset, {0x40000010, 0x40000012, 9, 9, 9, 9, 9}},
};

// Zero in tasks of all kinds.
constexpr uint16_t kZeros[] = {
    dpu::data_format::kOffset,          dpu::offset_pend::kOffset,
    dpu::data_cube_notch_addr::kOffset, dpu::undocumented_403c::kOffset,
    dpu::ew_op_value_0::kOffset,        dpu::ew_op_value_1::kOffset,
    dpu::undocumented_409c::kOffset,    dpu::undocumented_40bc::kOffset,
    dpu::undocumented_40c8::kOffset,    dpu::undocumented_4120::kOffset,
    dpu::undocumented_4130::kOffset,    dpu::lut_low_slope_0::kOffset,
    dpu::lut_low_slope_1::kOffset,      dpu::lut_low_shift::kOffset,
    dpu::lut_high_slope_0::kOffset,     dpu::lut_high_slope_1::kOffset,
    dpu::lut_high_shift::kOffset,
};
constexpr uint16_t kRdmaZeros[] = {
    rdma::rdma_bn_base_addr::kOffset, rdma::undocumented_5048::kOffset,
    rdma::undocumented_504c::kOffset, rdma::undocumented_5064::kOffset,
    rdma::undocumented_506c::kOffset, rdma::undocumented_5078::kOffset,
    rdma::undocumented_507c::kOffset,
};
// Lower limits, each in front of the upper one.
constexpr uint16_t kOpenLimits[] = {dpu::bs_min::kOffset, dpu::bn_min::kOffset,
                                    dpu::ew_min::kOffset, dpu::out_min::kOffset};
constexpr uint16_t kReluLimits[] = {dpu::relu_min::kOffset, dpu::relu_2_min::kOffset};
constexpr uint16_t kTableStarts[] = {dpu::lut_start_0::kOffset, dpu::lut_start_1::kOffset,
                                     dpu::lut_start_2::kOffset, dpu::lut_start_3::kOffset};
constexpr uint16_t kTableEnds[] = {dpu::lut_end_0::kOffset, dpu::lut_end_1::kOffset,
                                   dpu::lut_end_2::kOffset, dpu::lut_end_3::kOffset};
constexpr uint16_t kTableValues[] = {dpu::lut_low_value_0::kOffset, dpu::lut_low_value_1::kOffset,
                                     dpu::lut_high_value_0::kOffset,
                                     dpu::lut_high_value_1::kOffset};

Kind kind_of(const BlockView& v, bool is_conv) {
  if (is_conv) {
    const uint32_t mode = v.word(dpu::feature_mode_cfg::kOffset);
    return mode == kDpuSwitches[0].values[kDepthwise] ? kDepthwise : kDense;
  }
  const uint32_t ew = v.word(dpu::ew_cfg::kOffset);
  for (const Kind kind : {kSum, kProduct, kLookUp}) {
    if (ew == kEwCfg.values[kind]) return kind;
  }
  return v.word(dpu::lut_cfg::kOffset) == kLutCfg.values[kLoad] ? kLoad : kCopy;
}

template <size_t N>
void require_switches(const BlockView& v, const Switch (&switches)[N], Kind kind) {
  for (const Switch& item : switches) {
    if (item.values[kind] != kAny) require_word(v, item.offset, item.values[kind]);
  }
}

template <size_t N>
void require_words(const BlockView& v, const uint16_t (&offsets)[N], uint32_t expected) {
  for (const uint16_t offset : offsets) require_word(v, offset, expected);
}

template <size_t N>
void require_limits(const BlockView& v, const uint16_t (&offsets)[N], uint32_t least,
                    uint32_t largest) {
  for (const uint16_t offset : offsets) {
    require_word(v, offset, least);
    require_word(v, static_cast<uint16_t>(offset + 4), largest);
  }
}

// A convolution's clamp: both registers of limits have it, or are open.
Relu decode_activation(const BlockView& v) {
  if (v.word(dpu::bn_cfg::kOffset) == kBnOff) {
    require_limits(v, kReluLimits, kLeast, kLargest);
    return {};
  }
  require_word(v, dpu::bn_cfg::kOffset, kBnClamps);
  const uint32_t largest = v.word(dpu::relu_max::kOffset);
  require_limits(v, kReluLimits, 0, largest);
  return {true, largest != kLargest, static_cast<int32_t>(largest)};
}

// Both tables from end to end; values beyond them have no slope.
LutConfig decode_tables(const BlockView& v, Kind kind) {
  const uint32_t end = kind == kLookUp ? uint32_t{kTableEnd} : 0;
  require_words(v, kTableStarts, 0 - end);
  require_words(v, kTableEnds, end);
  LutConfig c;
  if (kind != kLookUp) {
    require_words(v, kTableValues, 0);
    return c;
  }
  c.is_on = true;
  c.le.start = -kTableEnd;
  c.lo.end = kTableEnd;
  c.le.index_shift = c.lo.index_shift = kIndexShift;
  c.overflow_lo = true;
  return c;
}

EwStage decode_operand(const BlockView& v, Kind kind) {
  EwStage ew;
  ew.offset = v.value(dpu::ew_cvt_offset_value::kSummand);
  ew.scale = static_cast<int16_t>(v.value(dpu::ew_cvt_scale_value::kScale));
  ew.convert_shift = v.raw(dpu::ew_cvt_scale_value::kShift);
  if (kind != kSum) require_word(v, dpu::ew_cvt_scale_value::kOffset, 1);
  if (kind != kSum && kind != kProduct) {
    require_word(v, dpu::ew_cvt_offset_value::kOffset, 0);
    return ew;
  }
  ew.operation = kind == kSum ? EwOperation::kAdd : EwOperation::kMul;
  ew.source = Operand::kMemory;
  ew.convert = true;
  return ew;
}

// Surfaces without gaps: no program with gaps is known.
void require_whole(const BlockView& v, uint16_t offset, const DpuConfig& c, uint64_t pitch) {
  const uint64_t rows = c.line_pitch * c.height;
  if (pitch == rows || c.surfaces() == 1) return;
  v.fault(fault::kUnsupportedFeature, offset, "surfaces of ", rows, " bytes that are ", pitch,
          " apart are not modelled of tasks without a convolution");
}

void decode_conv(const BlockView& v, const Chip& chip, DpuConfig* c) {
  const uint32_t group = c->is_depthwise ? chip.depthwise_channels : chip.dense_kernels;
  // Whether the rest of a depthwise group is written is not known: it needs room.
  c->channels = align_up(c->real_channels, group);
  c->surfaces_per_group = group / c->lanes;
  const uint32_t surfaces = (c->real_channels + c->lanes - 1) / c->lanes;
  require_word(v, dpu::bs_ow_cfg::kOffset,
               c->is_depthwise ? 0x13033 | ((surfaces - 1) & 3) << 8 : 0x80011111);
  const uint64_t rows = c->line_pitch * c->height;
  c->group_pitch = v.value(dpu::surface_add::kSurfAdd) + rows;
  v.require_equal(dpu::surface_add::kSurfAdd, c->group_pitch - rows,
                  c->surface_pitch * c->surfaces_per_group - rows, "DPU.DST_SURF_STRIDE");
  const bool is_odd = c->surface_pitch > kAtomBytes && c->surface_pitch % (4 * kAtomBytes) != 0;
  if (c->surface_pitch < rows || (c->is_depthwise && is_odd)) {
    v.fault(fault::kInconsistentSizes, dpu::dst_surf_stride::kOffset, "surfaces of ",
            c->surface_pitch,
            " bytes are smaller than the tile, or neither one pixel nor a multiple of 4 in "
            "depthwise mode");
  }
  c->bs.alu = c->bs.mul = Operand::kMemory;
  c->ow = c->is_depthwise ? Operand::kOff : Operand::kMemory;
  c->bn.relu = decode_activation(v);
}

void decode_alone(const BlockView& v, Kind kind, DpuConfig* c) {
  c->is_flying = true;
  if (c->channels % c->lanes != 0) {
    v.fault(fault::kUnsupportedFeature, dpu::data_cube_channel::kChannel, c->channels,
            " channels, no whole surfaces of 16, are not modelled");
  }
  require_limits(v, kReluLimits, kLeast, kLargest);
  require_word(v, dpu::surface_add::kOffset, 0);
  c->group_pitch = c->surface_pitch;
  require_whole(v, dpu::dst_surf_stride::kOffset, *c, c->surface_pitch);
  if (kind != kLoad) c->bs.alu = Operand::kRegister;
  // BN's record adds before it multiplies, as BS does, which is off then.
  if (kind == kSum || kind == kLookUp) c->bs.mul = Operand::kRegister;
}

DpuConfig decode_stages(const BlockView& v, Kind kind, const Chip& chip) {
  require_switches(v, kDpuSwitches, kind);
  require_words(v, kZeros, 0);
  require_limits(v, kOpenLimits, kLeast, kLargest);
  DpuConfig c;
  const bool is_alone = kind > kDepthwise;
  c.is_depthwise = kind == kDepthwise;
  c.width = c.write_width = v.value(dpu::data_cube_width::kWidth);
  c.height = c.write_height = v.value(dpu::data_cube_height::kHeight);
  c.real_channels = c.channels = v.value(dpu::data_cube_channel::kChannel);
  const uint32_t writer = is_alone ? 0xf00 : c.is_depthwise ? 0x310 : 0x710;
  require_word(v, dpu::wdma_size_0::kOffset, (c.real_channels - 1) << 16 | writer);
  require_word(v, dpu::wdma_size_1::kOffset, (c.height - 1) << 16 | (c.width - 1));
  c.dst = v.atom_address(dpu::dst_base_addr::kOffset);
  c.surface_pitch = v.value(dpu::dst_surf_stride::kDstSurfStride);
  c.line_pitch = uint64_t{c.width} * kAtomBytes;
  if (is_alone) {
    decode_alone(v, kind, &c);
  } else {
    decode_conv(v, chip, &c);
  }
  c.lut = decode_tables(v, kind);
  c.ew = decode_operand(v, kind);
  c.out.offset = v.value(dpu::out_cvt_offset::kOutCvtOffset);
  v.only(dpu::out_cvt_scale::kFlyingEn, is_alone ? 1 : 0,
         is_alone ? "the conversion of convolutions" : "another conversion");
  c.out.scale = static_cast<int16_t>(v.value(dpu::out_cvt_scale::kOutCvtScale));
  c.out.shift = v.raw(dpu::out_cvt_shift::kOutCvtShift);
  return c;
}

RdmaConfig decode_readers(const BlockView& v, const DpuConfig& d, Kind kind) {
  const bool is_alone = kind > kDepthwise;
  require_switches(v, kRdmaSwitches, kind);
  require_words(v, kRdmaZeros, 0);
  require_word(v, rdma::rdma_data_cube_width::kOffset, d.width - 1);
  require_word(v, rdma::rdma_data_cube_height::kOffset, d.height - 1);
  require_word(v, rdma::rdma_data_cube_channel::kOffset, d.real_channels - 1);
  require_word(v, is_alone ? rdma::rdma_bs_base_addr::kOffset : rdma::rdma_src_base_addr::kOffset,
               0);
  RdmaConfig c;
  uint64_t record = kScalarBytes;
  if (is_alone) {
    c.reads_main = true;
    c.src_address = v.atom_address(rdma::rdma_src_base_addr::kOffset);
    c.src.height = d.height;
    c.src.width = d.width;
    c.src.line_pitch = d.line_pitch;
    c.src.surface_pitch = static_cast<int64_t>(d.line_pitch * d.height);
    record = kSummandBytes + (d.bs.mul == Operand::kOff ? 0 : 2 * kScalarBytes);
  } else {
    c.bs.data = d.is_depthwise ? OperandData::kPairBlocks : OperandData::kBlocks;
    c.bs.address = v.atom_address(rdma::rdma_bs_base_addr::kOffset);
  }
  const std::pair<uint16_t, const Switch&> places[] = {
      {rdma::rdma_bs_scalar_addr::kOffset, kBsReader},
      {rdma::rdma_bn_scalar_addr::kOffset, kBnReader}};
  for (const auto& [offset, reader] : places) {
    if (reader.values[kind] == 0) {
      require_word(v, offset, 0);
    } else {
      c.scalars = {v.atom_address(offset), record, 0, 1};
    }
  }
  if (d.ew.operation == EwOperation::kOff) {
    require_word(v, rdma::rdma_ew_surf_stride::kOffset, 0);
    require_word(v, rdma::rdma_ew_base_addr::kOffset, 0);
    return c;
  }
  const uint64_t pitch = v.value(rdma::rdma_ew_surf_stride::kEwSurfStride);
  require_whole(v, rdma::rdma_ew_surf_stride::kOffset, d, pitch);
  c.ew = EwRead::kPerPixel;
  c.ew_address = v.atom_address(rdma::rdma_ew_base_addr::kOffset);
  c.ew_shape = c.src;
  return c;
}

// The record at RDMA_BS_SCALAR_ADDR or RDMA_BN_SCALAR_ADDR, to BS; of convolutions only its shifts.
void fetch_scalars(const Memory& memory, const RdmaConfig& c, Kind kind, const Position& where,
                   DpuConfig* d) {
  const uint64_t size = c.scalars.extent();
  if (size == 0) return;
  const char* reg =
      kind == kLookUp ? "DPU_RDMA.RDMA_BN_SCALAR_ADDR" : "DPU_RDMA.RDMA_BS_SCALAR_ADDR";
  const uint8_t* record = memory.read(c.scalars, where, reg, "the numbers of a stage");
  const uint8_t* shifts = record;
  if (kind > kDepthwise) {
    d->bs.alu_operand = load_element(record, 4);
    if (load_element(record + kScalarBytes, 4) != d->bs.alu_operand) {
      raise(fault::kUnsupportedFeature, where, reg,
            "a summand whose two copies differ is not modelled by this simulator");
    }
    if (size == kSummandBytes) return;
    d->bs.mul_operand = static_cast<int16_t>(load_element(record + kSummandBytes, 2));
    shifts += kSummandBytes + kScalarBytes;
  }
  d->bs.shift = shifts[0] & 0x3fu;
  d->bs.shift_negative = shifts[1] & 0x3fu;
}

}  // namespace

RdmaConfig decode_dpu(uint32_t enable_mask, const RegisterFile& registers, const Memory& memory,
                      const Chip& chip, const Position& where, DpuConfig* config) {
  if (enable_mask != kFlyingMask && enable_mask != kConvRdmaMask) {
    raise(fault::kUnsupportedFeature, where, "ENABLE.OPERATION_ENABLE", "mask ", hex(enable_mask),
          " is not modelled of this chip; supported are 0x1d and 0x18");
  }
  const BlockView stages = registers.view(Block::kDpu, where);
  const Kind kind = kind_of(stages, enable_mask == kConvRdmaMask);
  *config = decode_stages(stages, kind, chip);
  const RdmaConfig readers = decode_readers(registers.view(Block::kDpuRdma, where), *config, kind);
  fetch_scalars(memory, readers, kind, where, config);
  return readers;
}

namespace cna = regs::rk3576::cna;

static constexpr Decoder kDecoder = {&decode_dpu, &decode_cna, &decode_core, &separate_pairs};

// Programs of the vendor's compiler for the second core differ from those for the first in these
// fields of CNA, on every layer compared.
static constexpr SecondCoreField kSecondCore[] = {
    {cna::cbuf_con1::kSecondCore, SecondCoreField::Step::kOne},
    {cna::cbuf_con0::kWeightFirstBank, SecondCoreField::Step::kBanks},
    {cna::cbuf_con1::kEndBank, SecondCoreField::Step::kBanks},
    {cna::cbuf_con2::kWindowStart, SecondCoreField::Step::kEntries},
    {cna::cbuf_con3::kFetchStart, SecondCoreField::Step::kEntries},
    {cna::cbuf_con3::kDataEnd, SecondCoreField::Step::kEntries},
};

const RegisterTable kRegisterTable = {
    {regs::rk3576::kRegisters, std::size(regs::rk3576::kRegisters)},
    regs::rk3576::dpu::dst_base_addr::kOffset,
    true,
    &kDecoder,
    {kSecondCore, std::size(kSecondCore)}};

}  // namespace rk3588::sim::rk3576
