// CNA's input side beyond int8 cubes: element types, packed pixels with their converter, and the
// pixels that a transposed convolution inserts.
#pragma once

#include <vector>

#include "sim/cna.h"

namespace rk3588::sim {

Element decode_cna_element(const BlockView& view);
PackedPixels decode_packed(const BlockView& view);
Deconvolution decode_deconvolution(const BlockView& view);
InputConverter decode_converter(const BlockView& view, const CnaConfig& config);
// Pitches of packed pixels: LINE_STRIDE counts pixels, rows are aligned to whole atoms of them
// (16 pixels, fp16 8).
void decode_packed_feature(const BlockView& view, const CnaConfig& config, FeatureCube* feature);

// Makes an ordinary cube of packed pixels (converted, lanes without a channel 0) and of a
// transposed convolution's input (pads between the pixels): writes it to `memory`, sets `*feature`
// to it and changes config->feature. Nothing happens for other inputs.
void expand_features(CnaConfig* config, const int8_t** feature, std::vector<int8_t>* memory);

}  // namespace rk3588::sim
