// The device's address space: regions by address, bounds of every access, and what was never
// written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/fault.h"

namespace rk3588::sim {

// `count` ranges of `bytes` each, `pitch` apart: the rows or surfaces of a cube.
struct AddressPattern {
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t pitch = 0;
  uint64_t count = 1;
  uint64_t extent() const { return count == 0 ? 0 : (count - 1) * pitch + bytes; }
};

class Memory {
 public:
  // Throws Fault for regions that overlap, are empty or end above 2^32.
  explicit Memory(Span<const Region> regions);

  // Host pointer to the first byte; the whole pattern must lie in one region. `what` names the
  // access.
  const uint8_t* read(const AddressPattern& pattern, const Position& where, const std::string& reg,
                      const std::string& what) const;
  // Bounds only, whatever the memory holds.
  const uint8_t* check(const AddressPattern& pattern, const Position& where, const std::string& reg,
                       const std::string& what) const;
  uint8_t* write(const AddressPattern& pattern, const Position& where, const std::string& reg,
                 const std::string& what);
  // True if [first, first + bytes) and [second, second + bytes) lie in the same region.
  bool same_region(uint64_t first, uint64_t second) const;

 private:
  struct Mapped {
    const Region* region;
    uint64_t begin;
    uint64_t end;
    std::vector<uint8_t> written;  // one per atom of 16 bytes; empty: all content is valid
  };
  // Calls see(first, count) for the atoms of each range, where somebody asks what was written.
  template <typename See>
  static void for_atoms(const Mapped& mapped, const AddressPattern& pattern, See see);
  const Mapped* find(uint64_t address) const;
  const Mapped& resolve(const AddressPattern& pattern, const Position& where,
                        const std::string& reg, const std::string& what) const;

  std::vector<Mapped> mapped_;  // by address
};

// Two ranges that start and end at the same address are an in-place operation: every element is
// read before it is written there. Anything else that touches destroys input that other elements
// still need: Fault OutputOverlap at `reg`. `what` names the inputs. Returns whether the lenient
// mode passed over one.
bool check_overlap(const std::vector<AddressPattern>& outputs, std::vector<AddressPattern> inputs,
                   bool in_place_allowed, const Position& where, const char* reg,
                   const std::string& what);

}  // namespace rk3588::sim
