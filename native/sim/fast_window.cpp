#include <cstring>

#include "sim/fast.h"
#include "sim/fast_float.h"

namespace rk3588::sim {

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
  const PaddedInput input(cna);
  FeatureWindow w;
  w.rows = static_cast<uint32_t>(input.rows);
  w.columns = static_cast<uint32_t>(ceil_div(input.columns, cna.stride_w));
  const bool is_inside =
      cna.pad_top == 0 && cna.pad_left == 0 && w.rows <= f.height && input.columns <= f.width;
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
  w.data = memory->data();
  const int8_t* pad = input.pad.data();
  pool.run(f.surfaces(), [&](size_t s) {
    for (size_t y = 0; y < w.rows; ++y) {
      int8_t* out = memory->data() + s * w.surface_pitch + y * w.row_pitch;
      input.for_row(task, y, [&](size_t first, size_t count, const int8_t* atoms) {
        if (atoms != nullptr) atoms += s * f.surface_pitch;
        if (atoms != nullptr && cna.stride_w == 1) {
          std::memcpy(out + first * kAtomBytes, atoms, count * kAtomBytes);
          return;
        }
        for (size_t phase = 0; phase < cna.stride_w; ++phase) {
          size_t x = first + (phase + cna.stride_w - first % cna.stride_w) % cna.stride_w;
          int8_t* atom = out + phase * w.phase_pitch + x / cna.stride_w * kAtomBytes;
          for (; x < first + count; x += cna.stride_w, atom += kAtomBytes) {
            const int8_t* own = atoms != nullptr ? atoms + (x - first) * kAtomBytes : pad;
            std::memcpy(atom, own, kAtomBytes);
          }
        }
      });
    }
  });
  return w;
}

}  // namespace rk3588::sim
