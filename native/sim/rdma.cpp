#include "sim/rdma.h"

namespace rk3588::sim {
namespace {

namespace r = regs::dpu_rdma;

constexpr char kCube[] = "DPU.DATA_CUBE_*";
constexpr uint32_t kUseAlu = 1;
constexpr uint32_t kUseMul = 4;
constexpr uint32_t kUseAll = 7;  // ALU | OW | MUL
// COMB_USE: bit 0 both readers share one cube, bit 1 it is the main operand, bit 2 EW's.
constexpr uint32_t kCombinedMain = 3;
constexpr uint32_t kCombinedEw = 5;
constexpr uint32_t kSize8Bit = 1;
constexpr uint32_t kSize32Bit = 3;
// Blocks of 8 channels: 8 int32 | 8 int16 | 8 int16.
constexpr uint32_t kBlockChannels = 8;
constexpr uint32_t kBlockBytes = 64;
constexpr uint32_t kBlockOw = 32;
constexpr uint32_t kBlockMul = 48;
// Without OW operands.
constexpr uint32_t kPairBlockBytes = 48;
constexpr uint32_t kPairBlockMul = 32;

void refuse_unsupported(const BlockView& v) {
  v.only(r::rdma_erdma_cfg::kErdmaSurfMode, 0, "a surface series");
  v.only(r::rdma_erdma_cfg::kErdmaNonalign, 0, "unaligned reading");
}

OperandData operand_data(uint32_t use) {
  return use == kUseAlu ? OperandData::kSummands : OperandData::kMultipliers;
}

void decode_brdma(const BlockView& v, RdmaConfig* c) {
  const uint32_t use = v.raw(r::rdma_brdma_cfg::kBrdmaDataUse);
  if (use == 0) return;
  if (use != kUseAlu && use != kUseMul && use != kUseAll) {
    v.fault(fault::kUnsupportedFeature, r::rdma_brdma_cfg::kBrdmaDataUse, "the combination ", use,
            " is not modelled by this simulator; supported are 0, 1 (dense int32), 4 (dense "
            "int16 multipliers) and 7 (blocks of 8 channels)");
  }
  c->bs.data = use == kUseAll ? OperandData::kBlocks : operand_data(use);
  c->bs.address = v.atom_address(r::rdma_bs_base_addr::kOffset);
}

void decode_nrdma(const BlockView& v, RdmaConfig* c) {
  const uint32_t use = v.raw(r::rdma_nrdma_cfg::kNrdmaDataUse);
  if (use == 0) return;
  if (use != kUseAlu && use != kUseMul) {
    v.fault(fault::kUnsupportedFeature, r::rdma_nrdma_cfg::kNrdmaDataUse, "the combination ", use,
            " is not modelled by this simulator; supported are 0, 1 (dense int32 summands) and "
            "4 (dense int16 multipliers)");
  }
  c->bn.data = operand_data(use);
  c->bn.address = v.atom_address(r::rdma_bn_base_addr::kOffset);
}

void decode_ew_read(const BlockView& v, RdmaConfig* c) {
  const uint32_t cfg = v.word(r::rdma_erdma_cfg::kOffset);
  if (r::rdma_erdma_cfg::kErdmaDisable.raw(cfg) != 0) return;
  const uint32_t mode = r::rdma_erdma_cfg::kErdmaDataMode.raw(cfg);
  if (mode > 1) {
    v.fault(fault::kUnsupportedFeature, r::rdma_erdma_cfg::kErdmaDataMode, "mode ", mode,
            " is not modelled by this simulator; supported are 0 (per channel) and 1 (per "
            "pixel)");
  }
  c->ew = mode == 0 ? EwRead::kPerChannel : EwRead::kPerPixel;
  const uint32_t size = r::rdma_erdma_cfg::kErdmaDataSize.raw(cfg);
  if (size < kSize8Bit || size > kSize32Bit) {
    v.fault(fault::kUnsupportedFeature, r::rdma_erdma_cfg::kErdmaDataSize, "an operand of 4 bits (",
            size, ") is not modelled by this simulator; supported are 1 to 3 (8, 16 and 32 bits)");
  }
  c->ew_shape.element_bytes = 1u << (size - kSize8Bit);
  c->ew_address = v.atom_address(r::rdma_ew_base_addr::kOffset);
}

// Known programs give the operand's pitch twice: as the whole, and as the notch behind the tile's
// rows, which skips the other reader's surface where two share the operand. Which of them counts is
// not known, so they must agree.
void check_ew_stride(const BlockView& v, const RdmaConfig& c) {
  const uint16_t offset = r::rdma_ew_surf_stride::kOffset;
  const int64_t stride = v.value(r::rdma_ew_surf_stride::kEwSurfStride);
  int64_t expected = kAtomBytes;
  std::string because = "an operand per channel";
  if (c.ew == EwRead::kPerPixel) {
    const int64_t surfaces = c.combined ? 2 : 1;
    // Pitches that lead back wrap in 32 bits.
    if (static_cast<uint32_t>(stride * surfaces) ==
        static_cast<uint32_t>(c.ew_shape.surface_pitch)) {
      return;
    }
    expected = c.ew_shape.surface_pitch / surfaces;
    because = "DPU_RDMA.RDMA_EW_SURF_NOTCH";
  }
  v.expect_equal(offset, stride, expected, because);
}

void decode_main_read(const BlockView& v, bool is_conv, RdmaConfig* c) {
  const bool main = v.raw(r::rdma_feature_mode_cfg::kMrdmaDisable) == 0;
  const uint32_t combined = v.raw(r::rdma_feature_mode_cfg::kCombUse);
  const uint32_t known = is_conv ? kCombinedEw : kCombinedMain;
  if (combined != 0 && combined != known) {
    v.fault(fault::kUnsupportedFeature, r::rdma_feature_mode_cfg::kCombUse, "combination ",
            combined, " is not modelled by this simulator here; supported are 0 and ", known);
  }
  c->combined = combined != 0;
  if (!is_conv) {
    if (c->combined && c->ew != EwRead::kPerPixel) {
      v.fault(fault::kInvalidValue, r::rdma_feature_mode_cfg::kCombUse,
              "is 3 but ERDMA does not read per pixel; the odd surfaces would be missing");
    }
    if (!main) {
      v.fault(fault::kInvalidValue, r::rdma_feature_mode_cfg::kMrdmaDisable,
              "is 1 in flying mode, where MRDMA must feed the DPU; it needs 0");
    }
    c->reads_main = true;
    return;
  }
  if (main != c->combined) {
    v.fault(fault::kInvalidValue, r::rdma_feature_mode_cfg::kMrdmaDisable,
            c->combined
                ? "is 1 with COMB_USE 5, where MRDMA reads the even surfaces; it needs 0"
                : "is 0 in a convolution without COMB_USE, which never finishes; it needs 1");
  }
  if (c->combined != (c->ew == EwRead::kPerPixel)) {
    v.fault(c->combined ? fault::kInvalidValue : fault::kUnsupportedFeature,
            r::rdma_feature_mode_cfg::kCombUse,
            c->combined
                ? "is 5 but ERDMA does not read per pixel; the odd surfaces would be missing"
                : "is 0 but ERDMA reads per pixel; in a convolution this simulator models 5 only");
  }
}

// Numbers of `Number`'s size, one per channel.
template <typename Number>
std::vector<Number> dense_operands(const uint8_t* data, const DpuConfig& dpu) {
  std::vector<Number> numbers(dpu.channels, 0);
  constexpr int kBytes = sizeof(Number);
  for (uint32_t c = 0; c < dpu.real_channels; ++c) {
    numbers[c] = static_cast<Number>(load_element(data + uint64_t{kBytes} * c, kBytes));
  }
  return numbers;
}

uint64_t operand_size(OperandData data, uint32_t channels) {
  if (data == OperandData::kNone) return 0;
  if (data == OperandData::kSummands) return uint64_t{channels} * sizeof(int32_t);
  if (data == OperandData::kMultipliers) return uint64_t{channels} * sizeof(int16_t);
  const uint32_t block = data == OperandData::kPairBlocks ? kPairBlockBytes : kBlockBytes;
  return uint64_t{(channels + kBlockChannels - 1) / kBlockChannels} * block;
}

// Returns the bytes read.
uint64_t fetch_channels(const Memory& memory, const ChannelRead& read, const DpuConfig& dpu,
                        const Position& where, const char* reg, const char* what, XOperands* out,
                        std::vector<AddressPattern>* reads) {
  const AddressPattern pattern{read.address, operand_size(read.data, dpu.real_channels), 0, 1};
  if (read.data == OperandData::kNone) return 0;
  const uint8_t* data = memory.read(pattern, where, reg, what);
  reads->push_back(pattern);
  if (read.data == OperandData::kSummands) out->alu = dense_operands<int32_t>(data, dpu);
  if (read.data == OperandData::kMultipliers) out->mul = dense_operands<int16_t>(data, dpu);
  if (!read.has_blocks()) return pattern.bytes;
  const bool has_ow = read.data == OperandData::kBlocks;
  out->alu.assign(dpu.channels, 0);
  out->ow.assign(dpu.channels, 0);
  out->mul.assign(dpu.channels, 0);
  for (uint32_t c = 0; c < dpu.real_channels; ++c) {
    const uint8_t* block =
        data + uint64_t{c / kBlockChannels} * (has_ow ? kBlockBytes : kPairBlockBytes);
    const uint32_t lane = c % kBlockChannels;
    out->alu[c] = load_element(block + 4 * lane, 4);
    const uint8_t* last = block + (has_ow ? kBlockMul : kPairBlockMul);
    if (has_ow) {
      out->ow[c] = static_cast<int16_t>(load_element(block + kBlockOw + 2 * lane, 2));
    }
    out->mul[c] = static_cast<int16_t>(load_element(last + 2 * lane, 2));
  }
  return pattern.bytes;
}

void require_fetched(bool fetched, const Position& where, const char* reg, const char* operand) {
  if (fetched) return;
  raise(fault::kOperandNotFetched, where, reg, "the stage takes ", operand,
        " from memory, but the task's DPU_RDMA does "
        "not read it");
}

// Checks BS, BN and OW.
void require_channels_fetched(const RdmaConfig& rdma, const DpuConfig& dpu, const Position& where) {
  const bool has_blocks = rdma.bs.has_blocks();
  const struct {
    Operand source;
    bool is_fetched;
    const char* reg;
    const char* operand;
  } all[] = {
      {dpu.bs.alu, has_blocks || rdma.bs.data == OperandData::kSummands, "DPU.BS_CFG.BS_ALU_SRC",
       "its summand"},
      {dpu.bs.mul, has_blocks || rdma.bs.data == OperandData::kMultipliers,
       "DPU.BS_MUL_CFG.BS_MUL_SRC", "its multiplier"},
      {dpu.ow, rdma.bs.data == OperandData::kBlocks, "DPU.BS_OW_CFG.OW_SRC", "the OW operand"},
      {dpu.bn.alu, rdma.bn.data == OperandData::kSummands, "DPU.BN_CFG.BN_ALU_SRC", "its summand"},
      {dpu.bn.mul, rdma.bn.data == OperandData::kMultipliers, "DPU.BN_MUL_CFG.BN_MUL_SRC",
       "its multiplier"},
  };
  for (const auto& each : all) {
    if (each.source == Operand::kMemory) {
      require_fetched(each.is_fetched, where, each.reg, each.operand);
    }
  }
}

uint64_t bytes_of(const std::vector<AddressPattern>& reads, size_t first, size_t end) {
  uint64_t bytes = 0;
  for (size_t i = first; i < end; ++i) bytes += reads[i].extent();
  return bytes;
}

}  // namespace

RdmaConfig decode_rdma(const BlockView& v, const DpuConfig& dpu, bool is_conv) {
  refuse_unsupported(v);
  RdmaConfig c;
  const bool is_flying = v.raw(r::rdma_feature_mode_cfg::kFlyingMode) != 0;
  if (is_flying == is_conv) {
    v.fault(fault::kInvalidValue, r::rdma_feature_mode_cfg::kFlyingMode,
            is_conv ? "is 1 in a convolution; it needs 0" : "is 0 without CNA; it needs 1");
  }
  v.expect(r::rdma_feature_mode_cfg::kConvMode, dpu.is_depthwise ? 3 : 0, kCube);
  // The types of the main operand say nothing where it is not read.
  if (v.raw(r::rdma_feature_mode_cfg::kMrdmaDisable) == 0) {
    v.expect(r::rdma_feature_mode_cfg::kInPrecision, static_cast<int64_t>(dpu.declared_in), kCube);
    v.expect(r::rdma_feature_mode_cfg::kProcPrecision, static_cast<int64_t>(dpu.proc), kCube);
  }
  v.expect(r::rdma_data_cube_channel::kChannel, dpu.channels, kCube);
  c.src = decode_main_shape(v, dpu);
  decode_brdma(v, &c);
  decode_nrdma(v, &c);
  decode_ew_read(v, &c);
  decode_main_read(v, is_conv, &c);
  if (dpu.combined && !c.combined) {
    v.fault(fault::kInconsistentSizes, r::rdma_feature_mode_cfg::kCombUse,
            "is 0 but DPU.FEATURE_MODE_CFG.COMB_USE is 1");
  }
  if (c.reads_main || c.combined) {
    c.src_address = v.atom_address(r::rdma_src_base_addr::kOffset);
  }
  if (c.ew == EwRead::kPerPixel) {
    const uint32_t bytes = c.ew_shape.element_bytes;
    c.ew_shape = decode_ew_shape(v, c.src);
    c.ew_shape.element_bytes = bytes;
  }
  if (c.ew != EwRead::kOff) check_ew_stride(v, c);
  if (c.combined &&
      (c.src.surface_pitch != c.ew_shape.surface_pitch ||
       c.src.line_pitch != c.ew_shape.line_pitch || c.src.repeat_h != 1 || c.src.repeat_w != 1)) {
    v.fault(fault::kInconsistentSizes, r::rdma_ew_surf_notch::kOffset, "even surfaces are ",
            c.src.surface_pitch, " bytes apart but odd ones ", c.ew_shape.surface_pitch, " (rows ",
            c.src.line_pitch, " and ", c.ew_shape.line_pitch, "); they belong to one operand");
  }
  return c;
}

Operands fetch_operands(const Memory& memory, const RdmaConfig& rdma, const DpuConfig& dpu,
                        const Position& where) {
  Operands out;
  require_channels_fetched(rdma, dpu, where);
  out.bytes.brdma = fetch_channels(memory, rdma.bs, dpu, where, "DPU_RDMA.RDMA_BS_BASE_ADDR",
                                   "the operands of BS", &out.bs, &out.reads);
  out.bytes.nrdma = fetch_channels(memory, rdma.bn, dpu, where, "DPU_RDMA.RDMA_BN_BASE_ADDR",
                                   "the operands of BN", &out.bn, &out.reads);
  // Surfaces without a real channel are not read.
  const auto surfaces = [&](const OperandShape& shape) {
    const uint64_t lanes = kAtomBytes / shape.element_bytes;
    const uint64_t taken = (dpu.real_channels + lanes - 1) / lanes;
    return shape.rows_are_surfaces ? (taken + shape.repeat_h - 1) / shape.repeat_h : taken;
  };
  size_t first = out.reads.size();
  if (rdma.reads_main) {
    const uint64_t* odd = rdma.combined ? &rdma.ew_address : nullptr;
    out.main = read_operand(memory, rdma.src, rdma.src_address, odd, surfaces(rdma.src), where,
                            true, &out.reads);
  }
  out.bytes.mrdma = bytes_of(out.reads, first, out.reads.size());
  first = out.reads.size();
  if (dpu.ew.source != Operand::kMemory) return out;
  const char* reg = "DPU.EW_CFG.EW_OP_SRC";
  require_fetched(!rdma.combined || !rdma.reads_main, where, reg, "its operand");
  require_fetched(rdma.ew != EwRead::kOff, where, reg, "its operand");
  if (rdma.ew_shape.element_bytes != dpu.ew.operand_bytes) {
    raise(fault::kInconsistentSizes, where, "DPU.EW_CFG.EDATA_SIZE", "expects operands of ",
          dpu.ew.operand_bytes, " bytes but DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_SIZE reads ",
          rdma.ew_shape.element_bytes);
  }
  if (dpu.computes_in_float() && dpu.ew.operand_bytes == 1) {
    raise(fault::kUnsupportedFeature, where, "DPU.EW_CFG.EDATA_SIZE",
          "8-bit operands of floating point values are not modelled by this simulator; supported "
          "are 2 (fp16) and 3 (fp32)");
  }
  if (rdma.ew == EwRead::kPerChannel) {
    const uint32_t bytes = rdma.ew_shape.element_bytes;
    const AddressPattern pattern{rdma.ew_address, uint64_t{dpu.real_channels} * bytes, 0, 1};
    const uint8_t* data =
        memory.read(pattern, where, "DPU_RDMA.RDMA_EW_BASE_ADDR", "the EW operand");
    out.reads.push_back(pattern);
    out.ew_channels.assign(dpu.channels, 0);
    for (uint32_t i = 0; i < dpu.real_channels; ++i) {
      out.ew_channels[i] = load_element(data + uint64_t{i} * bytes, bytes);
    }
  } else if (rdma.combined) {
    out.ew = read_operand(memory, rdma.ew_shape, rdma.src_address, &rdma.ew_address,
                          surfaces(rdma.ew_shape), where, false, &out.reads);
  } else {
    out.ew = read_operand(memory, rdma.ew_shape, rdma.ew_address, nullptr, surfaces(rdma.ew_shape),
                          where, false, &out.reads);
  }
  // With COMB_USE the even surfaces, which come first, are MRDMA's.
  const size_t even = rdma.combined ? (out.reads.size() - first + 1) / 2 : 0;
  out.bytes.mrdma += bytes_of(out.reads, first, first + even);
  out.bytes.erdma = bytes_of(out.reads, first + even, out.reads.size());
  return out;
}

}  // namespace rk3588::sim
