#include "sim/cbuf.h"

#include <algorithm>

#include "sim/rounding.h"

namespace rk3588::sim {
namespace {

namespace r = regs::cna;

bool overlaps(const AddressPattern& pattern, uint64_t begin, uint64_t end) {
  return pattern.address < end && begin < pattern.address + pattern.extent();
}

std::string kernel_text(const CnaConfig& c) {
  return joined(c.weights.kernels, " kernels of ", c.weights.kh, "x", c.weights.kw, "x",
                c.feature.channels);
}

std::string tile_text(const CnaConfig& c) {
  return joined(c.feature.height, "x", c.feature.width, "x", c.feature.channels);
}

}  // namespace

void Cbuf::check_banks(const CnaConfig& c, const BlockView& view) const {
  const CbufPlan& plan = c.cbuf;
  if (plan.data_banks == 0 || plan.weight_banks == 0) {
    view.fault(fault::kInvalidValue,
               {plan.banks_register, plan.data_banks == 0 ? "DATA_BANK" : "WEIGHT_BANK"},
               "is 0; data and weights need at least one bank each");
  }
  if (plan.data_banks + plan.weight_banks > c.chip->cbuf_banks) {
    view.fault(fault::kCbufOverrun, plan.banks_register, plan.data_banks, " data banks and ",
               plan.weight_banks, " weight banks are more than the ", c.chip->cbuf_banks,
               " that exist");
  }
  if (c.packed.is_on) {
    check_packed(c, view);
    return;
  }
  // The least space that holds a row. Compilers differ on whether a rest of 48 bytes takes 64.
  const uint64_t least = ceil_div(uint64_t{c.feature.width} * c.feature.surfaces() * kAtomBytes,
                                  c.chip->cbuf_entry_bytes);
  if (plan.entries_per_row < least) {
    view.fault(fault::kCbufOverrun, {plan.entries_register, "DATA_ENTRIES"}, "is ",
               plan.entries_per_row, " but a row of ", c.feature.width, " pixels of ",
               c.feature.channels, " channels takes ", least, " entries of ",
               c.chip->cbuf_entry_bytes, " bytes");
  }
  if (plan.entries_per_row > c.chip->cbuf_max_row_entries) {
    view.complain(fault::kCbufOverrun, {plan.entries_register, "DATA_ENTRIES"}, "is ",
                  plan.entries_per_row, "; rows are limited to ", c.chip->cbuf_max_row_entries,
                  " entries");
  }
  const uint64_t need = uint64_t{c.feature.height} * plan.entries_per_row;
  const uint64_t have =
      uint64_t{plan.data_banks} * (c.chip->cbuf_bank_bytes / c.chip->cbuf_entry_bytes);
  if (need > have) {
    view.fault(fault::kCbufOverrun, {plan.banks_register, "DATA_BANK"}, c.feature.height,
               " rows of ", plan.entries_per_row, " entries need ", need, " entries but ",
               plan.data_banks, " banks hold ", have, "; use more data banks or fewer rows");
  }
}

// Packed pixels take an atom each; DATA_ENTRIES counts the pixels of the whole tile, the stride's
// tail included.
void Cbuf::check_packed(const CnaConfig& c, const BlockView& view) const {
  const uint64_t pixels = uint64_t{c.feature.width} * c.feature.height;
  if (c.cbuf.entries_per_row < pixels) {
    view.complain(fault::kCbufOverrun, {c.cbuf.entries_register, "DATA_ENTRIES"}, "is ",
                  c.cbuf.entries_per_row, " but the tile of packed pixels has ", pixels);
  }
  const uint64_t need = std::max<uint64_t>(c.cbuf.entries_per_row, pixels) * kAtomBytes;
  const uint64_t have = uint64_t{c.cbuf.data_banks} * c.chip->cbuf_bank_bytes;
  if (need > have) {
    view.fault(fault::kCbufOverrun, r::cbuf_con0::kDataBank, "packed pixels take ", need,
               " bytes but ", c.cbuf.data_banks, " banks hold ", have,
               "; use more data banks or fewer rows");
  }
}

void Cbuf::check_weight_reuse(const CnaConfig& c, const BlockView& view) const {
  const auto mismatch = [&](const auto&... detail) {
    view.fault(fault::kReuseMismatch, r::cbuf_con0::kWeightReuse, detail...);
  };
  if (!weights_.is_valid) {
    mismatch("CBUF holds no complete set of weights: no earlier task of this run left one");
  }
  const CnaConfig& old = weights_.config;
  if (kernel_text(old) != kernel_text(c) || old.is_depthwise != c.is_depthwise ||
      old.element != c.element) {
    mismatch("CBUF holds ", kernel_text(old), " but the task uses ", kernel_text(c));
  }
  if (old.weights.address != c.weights.address) {
    mismatch("CBUF holds the weights of ", hex(old.weights.address), " but CNA.DCOMP_ADDR0 says ",
             hex(c.weights.address));
  }
  if (old.cbuf.weight_banks != c.cbuf.weight_banks) {
    mismatch("the weights were loaded into ", old.cbuf.weight_banks, " banks but the task says ",
             c.cbuf.weight_banks);
  }
  if (weights_.is_stale) {
    mismatch(
        "a task has overwritten the memory of the weights since they were loaded, so this "
        "simulator cannot tell them");
  }
}

void Cbuf::check_data_reuse(const CnaConfig& c, const BlockView& view) const {
  const auto mismatch = [&](const auto&... detail) {
    view.fault(fault::kReuseMismatch, r::cbuf_con0::kDataReuse, detail...);
  };
  if (!data_.is_valid) mismatch("CBUF holds no features: no earlier task of this run left any");
  const FeatureCube& old = data_.config.feature;
  const FeatureCube& now = c.feature;
  if (tile_text(data_.config) != tile_text(c) ||
      data_.config.cbuf.entries_per_row != c.cbuf.entries_per_row) {
    mismatch("CBUF holds a tile of ", tile_text(data_.config), " but the task uses ", tile_text(c));
  }
  if (old.address != now.address || old.line_pitch != now.line_pitch ||
      old.surface_pitch != now.surface_pitch) {
    mismatch("CBUF holds the features of ", hex(old.address), " but the task names ",
             hex(now.address), " or other strides");
  }
  if (data_.config.cbuf.data_banks != c.cbuf.data_banks) {
    mismatch("the features were loaded into ", data_.config.cbuf.data_banks,
             " banks but the task says ", c.cbuf.data_banks);
  }
  if (data_.is_stale) {
    mismatch(
        "a task has overwritten the memory of the features since they were loaded, so this "
        "simulator cannot tell them");
  }
}

void Cbuf::load(const CnaConfig& c, const BlockView& view) {
  check_banks(c, view);
  if (c.cbuf.weight_reuse) check_weight_reuse(c, view);
  if (c.cbuf.data_reuse) check_data_reuse(c, view);
  if (!c.cbuf.weight_reuse) {
    // Weights that do not fit their banks stream through them; nothing complete stays.
    const bool fits = c.weights.bytes <= uint64_t{c.cbuf.weight_banks} * c.chip->cbuf_bank_bytes;
    weights_ = {fits, false, c};
  }
  if (!c.cbuf.data_reuse) data_ = {true, false, c};
}

void Cbuf::note_write(const AddressPattern& pattern) {
  const WeightBlock& w = weights_.config.weights;
  if (overlaps(pattern, w.address, w.address + w.bytes)) weights_.is_stale = true;
  const FeatureCube& f = data_.config.feature;
  const uint64_t end =
      f.address + uint64_t{f.surfaces()} * f.surface_pitch + uint64_t{f.height} * f.line_pitch;
  if (overlaps(pattern, f.address, end)) data_.is_stale = true;
}

}  // namespace rk3588::sim
