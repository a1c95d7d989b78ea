// Values on the host that are not the device's int8: float32 at the edges of quantised models, and
// bytes of another quantisation.
//
// Dense elements in the host's order on both sides; the layouts are converted after, or before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/program.h"

namespace rk3588 {

// As TensorFlow Lite's reference kernel of QUANTIZE: value / scale as float32, halves away from
// zero, to int32 as the processor does (what has no int32 follows it), plus the zero point, within
// the type. `values` need not be aligned.
void quantize(const Affine& affine, const uint8_t* values, size_t count, uint8_t* device);

// As its kernels of DEQUANTIZE: (q - zero point) * scale, rounded to float32 once.
void dequantize(const Affine& affine, const uint8_t* device, size_t count, uint8_t* values);

// device[i] = table[host[i]], for a table of 256 bytes.
void look_up(const uint8_t* table, const uint8_t* host, size_t count, uint8_t* device);

}  // namespace rk3588
