// Values on the host that are not the device's: float32 at the edges of quantised models and of
// models in fp16, and bytes of another quantisation.
//
// Dense elements in the host's order on both sides; the layouts are converted after, or before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/program.h"

namespace rk3588 {

// How a runtime's reference kernel of QUANTIZE makes an int32 of a float32 (docs/numerics.md).
struct QuantizeRule {
  bool multiplies;  // by the reciprocal of the scale, rounded to float32; else divides by the scale
  bool saturates;   // what has no int32 becomes the nearest, NaN 0 (aarch64); else INT32_MIN
};

// Returns the rule of the runtime that the calling thread has loaded.
QuantizeRule quantize_rule();

// As that kernel: value and scale make steps in float32, halves away from zero, to int32, plus the
// zero point, within the type. `values` need not be aligned.
void quantize(const Affine& affine, QuantizeRule rule, const uint8_t* values, size_t count,
              uint8_t* device);

// The same without instructions of the processor for it, which gives the same bytes.
void quantize_portable(const Affine& affine, QuantizeRule rule, const uint8_t* values, size_t count,
                       uint8_t* device);

// As its kernels of DEQUANTIZE: (q - zero point) * scale, rounded to float32 once.
void dequantize(const Affine& affine, const uint8_t* device, size_t count, uint8_t* values);

// float32 as fp16, to nearest, ties to even. Finite numbers beyond fp16's range become its largest
// of their sign; infinities stay, and NaN stay NaN (quiet, the upper bits of the payload kept).
// Both need not be aligned.
void to_half(const uint8_t* values, size_t count, uint8_t* device);

// fp16 as float32, which holds all of them. Both need not be aligned.
void from_half(const uint8_t* device, size_t count, uint8_t* values);

// The same without instructions of the processor for it, which gives the same bytes.
void to_half_portable(const uint8_t* values, size_t count, uint8_t* device);
void from_half_portable(const uint8_t* device, size_t count, uint8_t* values);

// device[i] = table[host[i]], for a table of 256 bytes.
void look_up(const uint8_t* table, const uint8_t* host, size_t count, uint8_t* device);

}  // namespace rk3588
