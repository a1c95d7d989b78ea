// PPU and PPU_RDMA: max, min and average pooling of a cube in memory.
#pragma once

#include "sim/element.h"
#include "sim/memory.h"
#include "sim/register_file.h"

namespace rk3588::sim {

enum class PoolingMethod { kAverage = 0, kMax = 1, kMin = 2 };

struct PoolingConfig {
  PoolingMethod method = PoolingMethod::kMax;
  Element element = Element::kInt8;
  uint32_t in_height = 0;
  uint32_t in_width = 0;
  uint32_t out_height = 0;
  uint32_t out_width = 0;
  uint32_t surfaces = 0;
  uint32_t kernel_h = 1;
  uint32_t kernel_w = 1;
  uint32_t stride_h = 1;
  uint32_t stride_w = 1;
  uint32_t pad_top = 0;
  uint32_t pad_left = 0;
  int64_t pad_value = 0;  // what a pixel of padding adds to an average
  uint16_t pad_half = 0;
  uint32_t recip_h = 0;
  uint32_t recip_w = 0;
  uint64_t src = 0;
  uint64_t src_line_pitch = 0;
  uint64_t src_surface_pitch = 0;
  uint64_t dst = 0;
  uint64_t dst_line_pitch = 0;
  uint64_t dst_surface_pitch = 0;
};

// Reads and checks the registers of both blocks; throws Fault.
PoolingConfig decode_pooling(const BlockView& ppu, const BlockView& rdma);

// Host pointers to the surfaces, and what the task reads and writes.
struct PoolingPlan {
  PoolingConfig config;
  std::vector<const uint8_t*> inputs;
  std::vector<uint8_t*> outputs;
  std::vector<AddressPattern> reads;
  std::vector<AddressPattern> writes;
};

// Checks every address; marks the output as written. Throws Fault.
PoolingPlan plan_pooling(const PoolingConfig& config, Memory& memory, const Position& where);
// One output element as a number.
double pool_element(const PoolingPlan& plan, uint32_t channel, uint32_t y, uint32_t x);
void run_pooling(const PoolingPlan& plan, class ThreadPool& pool);

}  // namespace rk3588::sim
