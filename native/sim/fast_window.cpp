#include <algorithm>
#include <cstring>

#include "sim/fast.h"

namespace rk3588::sim {
namespace {

using Atom = std::array<int8_t, kAtomBytes>;

void fill_padding(int8_t* out, size_t count, Atom pad) {
  for (size_t i = 0; i < count; ++i) std::memcpy(out + i * kAtomBytes, pad.data(), kAtomBytes);
}

// One row of one surface of the window, all phases.
void copy_row(const CnaConfig& cna, const Atom& pad, const int8_t* row, int8_t* out,
              uint32_t columns) {
  const int64_t width = cna.feature.width;
  for (uint32_t phase = 0; phase < cna.stride_w; ++phase) {
    for (uint32_t i = 0; i < columns; ++i, out += kAtomBytes) {
      const int64_t x = int64_t{i} * cna.stride_w + phase - cna.pad_left;
      if (row != nullptr && x >= 0 && x < width) {
        std::memcpy(out, row + x * kAtomBytes, kAtomBytes);
      } else {
        fill_padding(out, 1, pad);
      }
    }
  }
}

// The same for stride 1: one piece of padding, one of pixels, one of padding.
void copy_row_unit_stride(const CnaConfig& cna, const Atom& pad, const int8_t* row, int8_t* out,
                          uint32_t columns) {
  if (row == nullptr) {
    fill_padding(out, columns, pad);
    return;
  }
  const uint32_t left = std::min(cna.pad_left, columns);
  const uint32_t inside = std::min(cna.feature.width, columns - left);
  fill_padding(out, left, pad);
  std::memcpy(out + size_t{left} * kAtomBytes, row, size_t{inside} * kAtomBytes);
  fill_padding(out + size_t{left + inside} * kAtomBytes, columns - left - inside, pad);
}

}  // namespace

std::vector<ptrdiff_t> FeatureWindow::tap_offsets(const CnaConfig& cna, uint32_t surfaces) const {
  std::vector<ptrdiff_t> offsets;
  for (uint32_t s = 0; s < surfaces; ++s) {
    for (uint32_t ky = 0; ky < cna.weights.kh; ++ky) {
      for (uint32_t kx = 0; kx < cna.weights.kw; ++kx) {
        const uint32_t x = kx * cna.dilation_w;
        offsets.push_back(
            static_cast<ptrdiff_t>(s * surface_pitch + ky * cna.dilation_h * row_pitch +
                                   x % cna.stride_w * phase_pitch + x / cna.stride_w * kAtomBytes));
      }
    }
  }
  return offsets;
}

FeatureWindow make_window(const TaskPlan& task, ThreadPool& pool, std::vector<int8_t>* memory) {
  const CnaConfig& cna = task.cna;
  const FeatureCube& f = cna.feature;
  FeatureWindow w;
  w.rows = (cna.out_height - 1) * cna.stride_h + cna.reach_h();
  const uint32_t reach = (cna.out_width - 1) * cna.stride_w + cna.reach_w();
  w.columns = (reach + cna.stride_w - 1) / cna.stride_w;
  const bool is_inside =
      cna.pad_top == 0 && cna.pad_left == 0 && w.rows <= f.height && reach <= f.width;
  if (is_inside && cna.stride_w == 1) {
    w.data = task.feature;
    w.row_pitch = f.line_pitch;
    w.surface_pitch = f.surface_pitch;
    w.output_row_pitch = cna.stride_h * w.row_pitch;
    w.is_linear = w.output_row_pitch == size_t{cna.out_width} * kAtomBytes;
    return w;
  }
  w.phase_pitch = size_t{w.columns} * kAtomBytes;
  w.row_pitch = w.phase_pitch * cna.stride_w;
  w.surface_pitch = w.row_pitch * w.rows;
  w.output_row_pitch = cna.stride_h * w.row_pitch;
  memory->resize(w.surface_pitch * f.surfaces());
  const Atom pad = cna.pad_atom();
  pool.run(f.surfaces(), [&](size_t s) {
    int8_t* out = memory->data() + s * w.surface_pitch;
    for (uint32_t y = 0; y < w.rows; ++y, out += w.row_pitch) {
      const int64_t iy = int64_t{y} - cna.pad_top;
      const bool has_row = iy >= 0 && iy < f.height;
      const int8_t* row =
          has_row ? task.feature + s * f.surface_pitch + iy * f.line_pitch : nullptr;
      if (cna.stride_w == 1) {
        copy_row_unit_stride(cna, pad, row, out, w.columns);
      } else {
        copy_row(cna, pad, row, out, w.columns);
      }
    }
  });
  w.data = memory->data();
  return w;
}

}  // namespace rk3588::sim
