// RK3576: the same stages behind registers of its own (docs/registers_rk3576.md). What a program
// holds besides the forms that are known of this chip is a fault.
#pragma once

#include "sim/register_file.h"
#include "sim/task.h"

namespace rk3588::sim {

// Whether a chip has these registers.
inline bool is_rk3576(const Chip& chip) { return registers_of(chip).streams_arm_all; }

namespace rk3576 {

// Read and check the registers; throw Fault. Convolutions of int8 cubes only.
CnaConfig decode_cna(const BlockView& view, const Chip& chip);
CoreConfig decode_core(const BlockView& view, const CnaConfig& cna, const DpuConfig& dpu);
DpuConfig decode_dpu(const BlockView& view, const Chip& chip);
RdmaConfig decode_rdma(const BlockView& view, const DpuConfig& dpu);
// The last conversion, of a convolution or of a task without one (`is_alone`), to `dpu`.
void decode_out(const BlockView& view, bool is_alone, DpuConfig* dpu);

// Tasks without a convolution: sums and products of two maps, copies, functions from the tables,
// and loads of these. The numbers of a stage lie in a record in memory: a summand, twice, and of
// sums and functions a multiplier and shifts.
enum class AloneKind { kSum, kProduct, kCopy, kLookUp, kLoad };
DpuConfig decode_alone(const BlockView& view, AloneKind* kind);
RdmaConfig decode_alone_rdma(const BlockView& view, const DpuConfig& dpu, AloneKind kind);
void fetch_scalars(const Memory& memory, const RdmaConfig& rdma, AloneKind kind,
                   const Position& where, DpuConfig* dpu);

// The word of shifts at RDMA_BS_SCALAR_ADDR, to BS.
void fetch_shifts(const Memory& memory, const RdmaConfig& rdma, const Position& where,
                  DpuConfig* dpu);
// Depthwise weights have two bytes, which are added. The first ones get the order of one-byte
// weights; the second ones, which must be the same for all taps of a channel, become its multiple
// of the sum of inputs: the same results.
void separate_pairs(const Position& where, TaskPlan* plan);

}  // namespace rk3576
}  // namespace rk3588::sim
