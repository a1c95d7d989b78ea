// Tasks of RK3576 without a convolution: the DPU fed from memory.
#include <iterator>

#include "chip/registers_rk3576_gen.h"
#include "sim/rk3576.h"
#include "sim/rk3576_words.h"

namespace rk3588::sim::rk3576 {
namespace {

namespace dpu = regs::rk3576::dpu;
namespace rdma = regs::rk3576::dpu_rdma;

constexpr uint32_t kSummandBytes = 2 * kScalarBytes;
constexpr int32_t kTableEnd = 512 * 32;
constexpr uint32_t kIndexShift = 5;

// Registers of switches of the five known kinds, see AloneKind.
struct Kind {
  uint32_t wdma_mode;
  uint32_t bs_cfg;
  uint32_t bs_ow_cfg;
  uint32_t bn_cfg;
  uint32_t ew_cfg;
  uint32_t converter;
  uint32_t lut_cfg;
  uint32_t lut_info;
  uint32_t bs_scalars;
  uint32_t bn_scalars;
  uint32_t ew_reader;
};
constexpr Kind kKinds[] = {
    {0x100012, 0, 0, 0x903, 0x8002c0c0, 0, 0, 0, 0x1a, 0, 0x40000044},             // sum
    {0x100012, 2, 0x20000, 0x903, 0x810f4094, 0, 0, 0, 2, 0, 0x40000044},          // product
    {0x100012, 2, 0x20000, 0x903, 0x10041c1, 0, 0, 0, 2, 0, 0x41},                 // copy
    {0x53, 2, 0x20000, 0x20, 0x1004140, 0x10, 0x2000006, 0x50500, 0, 0x1a, 0x41},  // look up
    {0x53, 2, 0x20000, 0x903, 0x10041c1, 0, 0xff0000, 0, 0, 0, 1},                 // load
};
const Kind& known(AloneKind kind) { return kKinds[static_cast<size_t>(kind)]; }

constexpr uint16_t kZeros[] = {
    dpu::data_format::kOffset,          dpu::offset_pend::kOffset,
    dpu::data_cube_notch_addr::kOffset, dpu::undocumented_403c::kOffset,
    dpu::ew_op_value_0::kOffset,        dpu::ew_op_value_1::kOffset,
    dpu::undocumented_409c::kOffset,    dpu::surface_add::kOffset,
    dpu::undocumented_40bc::kOffset,    dpu::undocumented_40c8::kOffset,
    dpu::undocumented_4120::kOffset,    dpu::undocumented_4130::kOffset,
    dpu::lut_low_slope_0::kOffset,      dpu::lut_low_slope_1::kOffset,
    dpu::lut_low_shift::kOffset,        dpu::lut_high_slope_0::kOffset,
    dpu::lut_high_slope_1::kOffset,     dpu::lut_high_shift::kOffset,
};
constexpr uint16_t kRdmaZeros[] = {
    rdma::rdma_bs_base_addr::kOffset, rdma::rdma_bn_base_addr::kOffset,
    rdma::undocumented_5048::kOffset, rdma::undocumented_504c::kOffset,
    rdma::undocumented_5064::kOffset, rdma::undocumented_506c::kOffset,
    rdma::undocumented_5078::kOffset, rdma::undocumented_507c::kOffset,
};
// Lower limits, each in front of the upper one.
constexpr uint16_t kOpenLimits[] = {dpu::bs_min::kOffset,   dpu::bn_min::kOffset,
                                    dpu::relu_min::kOffset, dpu::relu_2_min::kOffset,
                                    dpu::ew_min::kOffset,   dpu::out_min::kOffset};
constexpr uint16_t kTableStarts[] = {dpu::lut_start_0::kOffset, dpu::lut_start_1::kOffset,
                                     dpu::lut_start_2::kOffset, dpu::lut_start_3::kOffset};
constexpr uint16_t kTableEnds[] = {dpu::lut_end_0::kOffset, dpu::lut_end_1::kOffset,
                                   dpu::lut_end_2::kOffset, dpu::lut_end_3::kOffset};
constexpr uint16_t kTableValues[] = {dpu::lut_low_value_0::kOffset, dpu::lut_low_value_1::kOffset,
                                     dpu::lut_high_value_0::kOffset,
                                     dpu::lut_high_value_1::kOffset};

AloneKind kind_of(const BlockView& v) {
  const uint32_t ew = v.word(dpu::ew_cfg::kOffset);
  for (const AloneKind kind : {AloneKind::kSum, AloneKind::kProduct, AloneKind::kLookUp}) {
    if (ew == known(kind).ew_cfg) return kind;
  }
  require_word(v, dpu::ew_cfg::kOffset, known(AloneKind::kCopy).ew_cfg);
  const bool is_load = v.word(dpu::lut_cfg::kOffset) == known(AloneKind::kLoad).lut_cfg;
  return is_load ? AloneKind::kLoad : AloneKind::kCopy;
}

void require_switches(const BlockView& v, const Kind& kind) {
  require_word(v, dpu::feature_mode_cfg::kOffset, 5);
  require_word(v, dpu::wdma_mode::kOffset, kind.wdma_mode);
  require_word(v, dpu::bs_cfg::kOffset, kind.bs_cfg);
  require_word(v, dpu::bs_ow_cfg::kOffset, kind.bs_ow_cfg);
  require_word(v, dpu::bn_cfg::kOffset, kind.bn_cfg);
  require_word(v, dpu::undocumented_40c0::kOffset, 0x4440000);
  require_word(v, dpu::undocumented_40cc::kOffset, kind.converter);
  require_word(v, dpu::undocumented_40d0::kOffset, 0x40ffff);
  require_word(v, dpu::lut_cfg::kOffset, kind.lut_cfg);
  require_word(v, dpu::lut_info::kOffset, kind.lut_info);
  for (const uint16_t offset : kZeros) require_word(v, offset, 0);
  for (const uint16_t offset : kOpenLimits) {
    require_word(v, offset, kLeast);
    require_word(v, static_cast<uint16_t>(offset + 4), kLargest);
  }
}

// Both tables from end to end; values beyond them have no slope.
LutConfig decode_tables(const BlockView& v, bool looks_up) {
  const uint32_t end = looks_up ? uint32_t{kTableEnd} : 0;
  for (const uint16_t offset : kTableStarts) require_word(v, offset, 0 - end);
  for (const uint16_t offset : kTableEnds) require_word(v, offset, end);
  LutConfig c;
  if (!looks_up) {
    for (const uint16_t offset : kTableValues) require_word(v, offset, 0);
    return c;
  }
  c.is_on = true;
  c.le.start = -kTableEnd;
  c.lo.end = kTableEnd;
  c.le.index_shift = c.lo.index_shift = kIndexShift;
  c.overflow_lo = true;
  return c;
}

EwStage decode_operand(const BlockView& v, AloneKind kind) {
  EwStage ew;
  ew.offset = v.value(dpu::ew_cvt_offset_value::kSummand);
  ew.scale = static_cast<int16_t>(v.value(dpu::ew_cvt_scale_value::kScale));
  ew.shift = v.raw(dpu::ew_cvt_scale_value::kShift);
  if (kind != AloneKind::kSum) require_word(v, dpu::ew_cvt_scale_value::kOffset, 1);
  if (kind != AloneKind::kSum && kind != AloneKind::kProduct) {
    require_word(v, dpu::ew_cvt_offset_value::kOffset, 0);
    return ew;
  }
  ew.operation = kind == AloneKind::kSum ? EwOperation::kAdd : EwOperation::kMul;
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

}  // namespace

DpuConfig decode_alone(const BlockView& v, AloneKind* kind) {
  *kind = kind_of(v);
  require_switches(v, known(*kind));
  DpuConfig c;
  c.is_flying = true;
  c.width = c.write_width = v.value(dpu::data_cube_width::kWidth);
  c.height = c.write_height = v.value(dpu::data_cube_height::kHeight);
  c.real_channels = c.channels = v.value(dpu::data_cube_channel::kChannel);
  if (c.channels % c.lanes != 0) {
    v.fault(fault::kUnsupportedFeature, dpu::data_cube_channel::kChannel, c.channels,
            " channels, no whole surfaces of 16, are not modelled");
  }
  require_word(v, dpu::wdma_size_0::kOffset, (c.channels - 1) << 16 | 0xf00);
  require_word(v, dpu::wdma_size_1::kOffset, (c.height - 1) << 16 | (c.width - 1));
  c.dst = v.atom_address(dpu::dst_base_addr::kOffset);
  c.line_pitch = uint64_t{c.width} * kAtomBytes;
  c.surface_pitch = v.value(dpu::dst_surf_stride::kDstSurfStride);
  c.group_pitch = c.surface_pitch;
  require_whole(v, dpu::dst_surf_stride::kOffset, c, c.surface_pitch);
  if (*kind != AloneKind::kLoad) c.bs.alu = Operand::kRegister;
  // BN's record adds before it multiplies, as BS does, which is off then.
  if (*kind == AloneKind::kSum || *kind == AloneKind::kLookUp) c.bs.mul = Operand::kRegister;
  c.lut = decode_tables(v, *kind == AloneKind::kLookUp);
  c.ew = decode_operand(v, *kind);
  decode_out(v, true, &c);
  return c;
}

RdmaConfig decode_alone_rdma(const BlockView& v, const DpuConfig& d, AloneKind kind) {
  const Kind& expected = known(kind);
  require_word(v, rdma::rdma_data_cube_width::kOffset, d.width - 1);
  require_word(v, rdma::rdma_data_cube_height::kOffset, d.height - 1);
  require_word(v, rdma::rdma_data_cube_channel::kOffset, d.channels - 1);
  require_word(v, rdma::rdma_brdma_cfg::kOffset, expected.bs_scalars);
  require_word(v, rdma::rdma_nrdma_cfg::kOffset, expected.bn_scalars);
  require_word(v, rdma::rdma_erdma_cfg::kOffset, expected.ew_reader);
  require_word(v, rdma::rdma_feature_mode_cfg::kOffset, 9);
  for (const uint16_t offset : kRdmaZeros) require_word(v, offset, 0);
  RdmaConfig c;
  c.reads_main = true;
  c.src_address = v.atom_address(rdma::rdma_src_base_addr::kOffset);
  c.src.height = d.height;
  c.src.width = d.width;
  c.src.line_pitch = d.line_pitch;
  c.src.surface_pitch = static_cast<int64_t>(d.line_pitch * d.height);
  const uint16_t places[] = {rdma::rdma_bs_scalar_addr::kOffset,
                             rdma::rdma_bn_scalar_addr::kOffset};
  const bool used[] = {expected.bs_scalars != 0, expected.bn_scalars != 0};
  for (size_t i = 0; i < std::size(places); ++i) {
    if (used[i]) {
      const uint32_t factor = d.bs.mul == Operand::kOff ? 0 : 2 * kScalarBytes;
      c.scalars = {v.atom_address(places[i]), kSummandBytes + factor, 0, 1};
    } else {
      require_word(v, places[i], 0);
    }
  }
  const uint64_t pitch = v.value(rdma::rdma_ew_surf_stride::kEwSurfStride);
  if (d.ew.operation == EwOperation::kOff) {
    require_word(v, rdma::rdma_ew_surf_stride::kOffset, 0);
    require_word(v, rdma::rdma_ew_base_addr::kOffset, 0);
    return c;
  }
  require_whole(v, rdma::rdma_ew_surf_stride::kOffset, d, pitch);
  c.ew = EwRead::kPerPixel;
  c.ew_address = v.atom_address(rdma::rdma_ew_base_addr::kOffset);
  c.ew_shape = c.src;
  return c;
}

void fetch_scalars(const Memory& memory, const RdmaConfig& c, AloneKind kind, const Position& where,
                   DpuConfig* d) {
  if (c.scalars.extent() == 0) return;
  const char* reg =
      kind == AloneKind::kLookUp ? "DPU_RDMA.RDMA_BN_SCALAR_ADDR" : "DPU_RDMA.RDMA_BS_SCALAR_ADDR";
  const uint8_t* record = memory.read(c.scalars, where, reg, "the numbers of a stage");
  d->bs.alu_operand = load_element(record, 4);
  if (load_element(record + kScalarBytes, 4) != d->bs.alu_operand) {
    raise(fault::kUnsupportedFeature, where, reg,
          "a summand whose two copies differ is not modelled by this simulator");
  }
  if (c.scalars.extent() == kSummandBytes) return;
  d->bs.mul_operand = static_cast<int16_t>(load_element(record + kSummandBytes, 2));
  const uint8_t* shifts = record + kSummandBytes + kScalarBytes;
  d->bs.shift = shifts[0] & 0x3fu;
  d->bs.shift_negative = shifts[1] & 0x3fu;
}

}  // namespace rk3588::sim::rk3576
