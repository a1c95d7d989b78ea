// RK3576's DPU and its readers in tasks of convolutions.
#include "chip/registers_rk3576_gen.h"
#include "sim/rk3576.h"
#include "sim/rk3576_words.h"

namespace rk3588::sim::rk3576 {
namespace {

namespace dpu = regs::rk3576::dpu;
namespace rdma = regs::rk3576::dpu_rdma;

constexpr uint32_t kBnOff = 0x903;
constexpr uint32_t kBnClamps = 0x902;

// What every known convolution holds; see the registers' meanings.
constexpr Expected kDpuConstants[] = {
    {dpu::feature_mode_cfg::kOffset, 0x40000004, 0x4000000c},
    {dpu::data_format::kOffset, 0, 0},
    {dpu::offset_pend::kOffset, 0, 0},
    {dpu::data_cube_notch_addr::kOffset, 0, 0},
    {dpu::wdma_mode::kOffset, 0x120080, 0x100092},
    {dpu::undocumented_403c::kOffset, 0, 0},
    {dpu::bs_cfg::kOffset, 1, 0},
    {dpu::bs_min::kOffset, kLeast, kLeast},
    {dpu::bs_max::kOffset, kLargest, kLargest},
    {dpu::bn_min::kOffset, kLeast, kLeast},
    {dpu::bn_max::kOffset, kLargest, kLargest},
    {dpu::ew_cfg::kOffset, 0x10041c1, 0x10041c1},
    {dpu::ew_cvt_offset_value::kOffset, 0, 0},
    {dpu::ew_cvt_scale_value::kOffset, 1, 1},
    {dpu::ew_min::kOffset, kLeast, kLeast},
    {dpu::ew_max::kOffset, kLargest, kLargest},
    {dpu::ew_op_value_0::kOffset, 0, 0},
    {dpu::ew_op_value_1::kOffset, 0, 0},
    {dpu::undocumented_409c::kOffset, 0, 0},
    {dpu::out_min::kOffset, kLeast, kLeast},
    {dpu::out_max::kOffset, kLargest, kLargest},
    {dpu::undocumented_40bc::kOffset, 0, 0},
    {dpu::undocumented_40c0::kOffset, 0x4440100, 0x4440100},
    {dpu::undocumented_40c8::kOffset, 0, 0},
    {dpu::undocumented_40cc::kOffset, 0, 0},
    {dpu::undocumented_40d0::kOffset, 0x40ffff, 0x40ffff},
};
// The tables: all registers from the first to the last are 0.
constexpr uint16_t kTablesFirst = dpu::lut_access_cfg::kOffset;
constexpr uint16_t kTablesLast = dpu::lut_high_value_1::kOffset;
constexpr Expected kRdmaConstants[] = {
    {rdma::rdma_src_base_addr::kOffset, 0, 0},
    {rdma::rdma_brdma_cfg::kOffset, 0x710, 0x510},
    {rdma::rdma_nrdma_cfg::kOffset, 0, 0},
    {rdma::rdma_bn_base_addr::kOffset, 0, 0},
    {rdma::rdma_bn_scalar_addr::kOffset, 0, 0},
    {rdma::rdma_erdma_cfg::kOffset, 0x41, 0x41},
    {rdma::rdma_ew_base_addr::kOffset, 0, 0},
    {rdma::rdma_ew_surf_stride::kOffset, 0, 0},
    {rdma::rdma_feature_mode_cfg::kOffset, 0x40000010, 0x40000012},
    {rdma::undocumented_5048::kOffset, 0, 0},
    {rdma::undocumented_504c::kOffset, 0, 0},
    {rdma::undocumented_5064::kOffset, 0, 0},
    {rdma::undocumented_506c::kOffset, 0, 0},
    {rdma::undocumented_5078::kOffset, 0, 0},
    {rdma::undocumented_507c::kOffset, 0, 0},
};

// Both clamps, or no limits.
void decode_activation(const BlockView& v, XStage* bn) {
  const uint16_t cfg = dpu::bn_cfg::kOffset;
  const uint32_t mode = v.word(cfg);
  const uint32_t least = v.word(dpu::relu_min::kOffset);
  const uint32_t largest = v.word(dpu::relu_max::kOffset);
  require_word(v, dpu::relu_2_min::kOffset, least);
  require_word(v, dpu::relu_2_max::kOffset, largest);
  if (mode == kBnOff) {
    require_word(v, dpu::relu_min::kOffset, kLeast);
    require_word(v, dpu::relu_max::kOffset, kLargest);
    return;
  }
  require_word(v, cfg, kBnClamps);
  require_word(v, dpu::relu_min::kOffset, 0);
  bn->relu = {true, largest != kLargest, static_cast<int32_t>(largest)};
}

}  // namespace

DpuConfig decode_dpu(const BlockView& v, const Chip& chip) {
  DpuConfig c;
  c.is_depthwise = v.word(dpu::feature_mode_cfg::kOffset) == kDpuConstants[0].depthwise;
  require_constants(v, kDpuConstants, c.is_depthwise);
  for (const regs::Register& reg : regs::rk3576::kRegisters) {
    const bool is_table = reg.target == dpu::kTarget && reg.offset >= kTablesFirst;
    if (is_table && reg.offset <= kTablesLast) require_word(v, reg.offset, 0);
  }
  c.width = c.write_width = v.value(dpu::data_cube_width::kWidth);
  c.height = c.write_height = v.value(dpu::data_cube_height::kHeight);
  c.real_channels = v.value(dpu::data_cube_channel::kChannel);
  const uint32_t group = c.is_depthwise ? chip.depthwise_channels : chip.dense_kernels;
  // Whether the rest of a depthwise group is written is not known: it needs room.
  c.channels = align_up(c.real_channels, group);
  c.surfaces_per_group = group / c.lanes;
  require_word(v, dpu::wdma_size_0::kOffset,
               (c.real_channels - 1) << 16 | (c.is_depthwise ? 0x310 : 0x710));
  require_word(v, dpu::wdma_size_1::kOffset, (c.height - 1) << 16 | (c.width - 1));
  const uint32_t surfaces = (c.real_channels + c.lanes - 1) / c.lanes;
  require_word(v, dpu::bs_ow_cfg::kOffset,
               c.is_depthwise ? 0x13033 | ((surfaces - 1) & 3) << 8 : 0x80011111);
  c.dst = v.atom_address(dpu::dst_base_addr::kOffset);
  c.surface_pitch = v.value(dpu::dst_surf_stride::kDstSurfStride);
  c.line_pitch = uint64_t{c.width} * kAtomBytes;
  const uint64_t rows = c.line_pitch * c.height;
  c.group_pitch = v.value(dpu::surface_add::kSurfAdd) + rows;
  v.require_equal(dpu::surface_add::kSurfAdd, c.group_pitch - rows,
                  c.surface_pitch * c.surfaces_per_group - rows, "DPU.DST_SURF_STRIDE");
  const bool is_odd = c.surface_pitch > kAtomBytes && c.surface_pitch % (4 * kAtomBytes) != 0;
  if (c.surface_pitch < rows || (c.is_depthwise && is_odd)) {
    v.fault(fault::kInconsistentSizes, dpu::dst_surf_stride::kOffset, "surfaces of ",
            c.surface_pitch,
            " bytes are smaller than the tile, or neither one pixel nor a multiple of 4 in "
            "depthwise mode");
  }
  c.bs.alu = c.bs.mul = Operand::kMemory;
  c.ow = c.is_depthwise ? Operand::kOff : Operand::kMemory;
  decode_activation(v, &c.bn);
  decode_out(v, false, &c);
  return c;
}

void decode_out(const BlockView& v, bool is_alone, DpuConfig* c) {
  c->out.offset = v.value(dpu::out_cvt_offset::kOutCvtOffset);
  v.only(dpu::out_cvt_scale::kFlyingEn, is_alone ? 1 : 0,
         is_alone ? "the conversion of convolutions" : "another conversion");
  c->out.scale = static_cast<int16_t>(v.value(dpu::out_cvt_scale::kOutCvtScale));
  c->out.shift = v.raw(dpu::out_cvt_shift::kOutCvtShift);
}

RdmaConfig decode_rdma(const BlockView& v, const DpuConfig& d) {
  RdmaConfig c;
  require_constants(v, kRdmaConstants, d.is_depthwise);
  require_word(v, rdma::rdma_data_cube_width::kOffset, d.width - 1);
  require_word(v, rdma::rdma_data_cube_height::kOffset, d.height - 1);
  require_word(v, rdma::rdma_data_cube_channel::kOffset, d.real_channels - 1);
  c.bs.data = d.is_depthwise ? OperandData::kPairBlocks : OperandData::kBlocks;
  c.bs.address = v.atom_address(rdma::rdma_bs_base_addr::kOffset);
  c.scalars = {v.atom_address(rdma::rdma_bs_scalar_addr::kOffset), kScalarBytes, 0, 1};
  return c;
}

void fetch_shifts(const Memory& memory, const RdmaConfig& c, const Position& where, DpuConfig* d) {
  const uint8_t* word =
      memory.read(c.scalars, where, "DPU_RDMA.RDMA_BS_SCALAR_ADDR", "the shifts of BS");
  d->bs.shift = word[0] & 0x3fu;
  d->bs.shift_negative = word[1] & 0x3fu;
}

}  // namespace rk3588::sim::rk3576
