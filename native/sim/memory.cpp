#include "sim/memory.h"

#include <algorithm>
#include <cstring>

namespace rk3588::sim {
namespace {

// Register fields for addresses are 32 bits wide.
constexpr uint64_t kAddressSpaceBytes = uint64_t{1} << 32;

std::string range_text(uint64_t begin, uint64_t end) { return hex(begin) + ".." + hex(end); }

}  // namespace

Memory::Memory(Span<const Region> regions) {
  const Position start;
  for (const Region& region : regions) {
    const uint64_t size = region.bytes.size();
    if (size == 0) continue;
    if (region.address >= kAddressSpaceBytes || size > kAddressSpaceBytes - region.address) {
      raise(fault::kUnmappedAccess, start, "", "region ", region.name, " at ", hex(region.address),
            " with ", size, " bytes must end below ", hex(kAddressSpaceBytes));
    }
    Mapped mapped{&region, region.address, region.address + size, {}};
    if (region.initial_bytes < size) {
      mapped.written.assign((size + kAtomBytes - 1) / kAtomBytes, 0);
      const uint64_t valid = (region.initial_bytes + kAtomBytes - 1) / kAtomBytes;
      std::fill_n(mapped.written.begin(), valid, uint8_t{1});
    }
    mapped_.push_back(std::move(mapped));
  }
  std::sort(mapped_.begin(), mapped_.end(),
            [](const Mapped& a, const Mapped& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < mapped_.size(); ++i) {
    if (mapped_[i].begin < mapped_[i - 1].end) {
      raise(fault::kUnmappedAccess, start, "", "regions ", mapped_[i - 1].region->name, " and ",
            mapped_[i].region->name, " overlap at ", hex(mapped_[i].begin));
    }
  }
}

const Memory::Mapped* Memory::find(uint64_t address) const {
  auto next = std::upper_bound(mapped_.begin(), mapped_.end(), address,
                               [](uint64_t value, const Mapped& m) { return value < m.begin; });
  if (next == mapped_.begin()) return nullptr;
  --next;
  return address < next->end ? &*next : nullptr;
}

const Memory::Mapped& Memory::resolve(const AddressPattern& pattern, const Position& where,
                                      const std::string& reg, const std::string& what) const {
  const Mapped* mapped = find(pattern.address);
  const uint64_t end = pattern.address + pattern.extent();
  if (mapped == nullptr) {
    raise(fault::kUnmappedAccess, where, reg, what, " ", range_text(pattern.address, end),
          " is in no mapped buffer");
  }
  if (end > mapped->end) {
    raise(fault::kUnmappedAccess, where, reg, what, " ", range_text(pattern.address, end),
          " leaves buffer ", mapped->region->name, " ", range_text(mapped->begin, mapped->end),
          " by ", end - mapped->end, " bytes");
  }
  return *mapped;
}

template <typename See>
void Memory::for_atoms(const Mapped& mapped, const AddressPattern& pattern, See see) {
  if (mapped.written.empty()) return;
  const uint64_t start = pattern.address - mapped.begin;
  for (uint64_t i = 0; i < pattern.count; ++i) {
    const uint64_t first = (start + i * pattern.pitch) / kAtomBytes;
    const uint64_t last = (start + i * pattern.pitch + pattern.bytes - 1) / kAtomBytes;
    see(first, last - first + 1);
  }
}

const uint8_t* Memory::read(const AddressPattern& pattern, const Position& where,
                            const std::string& reg, const std::string& what) const {
  if (pattern.extent() == 0) return nullptr;
  const Mapped& mapped = resolve(pattern, where, reg, what);
  for_atoms(mapped, pattern, [&](uint64_t first, uint64_t count) {
    const void* hole = std::memchr(mapped.written.data() + first, 0, count);
    if (hole == nullptr) return;
    const uint64_t atom = static_cast<const uint8_t*>(hole) - mapped.written.data();
    complain(fault::kNeverWrittenMemory, where, reg, what, " reads ",
             hex(mapped.begin + atom * kAtomBytes), " in buffer ", mapped.region->name,
             ", which nothing has written");
  });
  return mapped.region->bytes.data() + (pattern.address - mapped.begin);
}

const uint8_t* Memory::check(const AddressPattern& pattern, const Position& where,
                             const std::string& reg, const std::string& what) const {
  if (pattern.extent() == 0) return nullptr;
  const Mapped& mapped = resolve(pattern, where, reg, what);
  return mapped.region->bytes.data() + (pattern.address - mapped.begin);
}

uint8_t* Memory::write(const AddressPattern& pattern, const Position& where, const std::string& reg,
                       const std::string& what) {
  if (pattern.extent() == 0) return nullptr;
  Mapped& mapped = const_cast<Mapped&>(resolve(pattern, where, reg, what));
  for_atoms(mapped, pattern, [&](uint64_t first, uint64_t count) {
    std::memset(mapped.written.data() + first, 1, count);
  });
  return mapped.region->bytes.data() + (pattern.address - mapped.begin);
}

bool Memory::same_region(uint64_t first, uint64_t second) const {
  const Mapped* mapped = find(first);
  return mapped != nullptr && mapped == find(second);
}

bool check_overlap(const std::vector<AddressPattern>& outputs, std::vector<AddressPattern> inputs,
                   bool in_place_allowed, const Position& where, const char* reg,
                   const std::string& what) {
  std::sort(inputs.begin(), inputs.end(),
            [](const AddressPattern& a, const AddressPattern& b) { return a.address < b.address; });
  bool overlaps = false;
  uint64_t longest = 0;
  for (const AddressPattern& input : inputs) longest = std::max(longest, input.bytes);
  for (const AddressPattern& out : outputs) {
    const uint64_t from = out.address > longest ? out.address - longest : 0;
    auto input = std::lower_bound(
        inputs.begin(), inputs.end(), from,
        [](const AddressPattern& a, uint64_t address) { return a.address < address; });
    for (; input != inputs.end() && input->address < out.address + out.bytes; ++input) {
      if (input->address + input->bytes <= out.address) continue;
      const bool same = input->address == out.address && input->bytes == out.bytes;
      if (same && in_place_allowed) continue;
      overlaps = true;
      complain(fault::kOutputOverlap, where, reg, "the output ", hex(out.address), "..",
               hex(out.address + out.bytes), " overwrites ", what, " at ", hex(input->address),
               "..", hex(input->address + input->bytes), " that the same task reads");
    }
  }
  return overlaps;
}

}  // namespace rk3588::sim
