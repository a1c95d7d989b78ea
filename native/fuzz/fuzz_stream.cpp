// Fuzzing the simulator with command streams: no stream may crash it, hang it or touch memory that
// is not mapped; ending in a Fault is right.
//
// `make fuzz` builds it with clang (libFuzzer, guided by coverage), `make sanitize` with any
// compiler and a mutator of our own:
//   build/sanitize/fuzz_stream --runs 1000000 --seed 1 build/sanitize/seeds/*
//
// A seed: "NPU1", flags (1: chained, 2: literal path, 4: lenient), regions (1..32), tasks (16
// bits), then per region address and size (32 bits each), per task address and words (32 bits
// each); the rest is the content of the first region, which holds the streams. All little-endian.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "sim/simulator.h"

namespace {

using rk3588::Span;
namespace sim = rk3588::sim;

constexpr char kMagic[] = {'N', 'P', 'U', '1'};
constexpr size_t kHeaderBytes = 8;
constexpr size_t kPairBytes = 8;
constexpr uint32_t kMaxRegions = 32;
// Bounds that keep a run short: what a stream asks for beyond them is checked but not computed.
constexpr uint32_t kMaxRegionBytes = 4u << 20;
constexpr uint64_t kMaxMemoryBytes = 32u << 20;
constexpr uint64_t kMaxMacs = 4u << 20;
constexpr uint64_t kMaxMovedBytes = 4u << 20;
constexpr uint32_t kMaxTasks = 64;

uint32_t word(const uint8_t* bytes) {
  return bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
}

// Values of every kind, infinities and NaNs of fp16 among them; the same for every run.
void fill(std::vector<uint8_t>* bytes, uint32_t seed) {
  uint32_t state = seed + 1;
  for (uint8_t& byte : *bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
}

struct Run {
  std::vector<std::vector<uint8_t>> memory;
  std::vector<sim::Region> regions;
  sim::Job job;
  sim::Settings settings;
};

bool parse(const uint8_t* data, size_t size, Run* run) {
  if (size < kHeaderBytes || std::memcmp(data, kMagic, sizeof kMagic) != 0) return false;
  const uint8_t flags = data[4];
  const uint32_t regions = data[5];
  const uint32_t tasks = data[6] | uint32_t{data[7]} << 8;
  if (regions == 0 || regions > kMaxRegions || tasks == 0 || tasks > kMaxTasks) return false;
  const size_t head = kHeaderBytes + kPairBytes * (regions + tasks);
  if (size < head) return false;
  run->settings.chained = (flags & 1) != 0;
  run->settings.plain = (flags & 2) != 0;
  run->settings.lenient = (flags & 4) != 0;
  run->settings.threads = 1;
  const uint8_t* pair = data + kHeaderBytes;
  run->memory.resize(regions);
  uint64_t total = 0;
  for (uint32_t i = 0; i < regions; ++i, pair += kPairBytes) {
    const uint32_t bytes = word(pair + 4);
    total += bytes;
    if (bytes == 0 || bytes > kMaxRegionBytes || total > kMaxMemoryBytes) return false;
    // Exactly as large as the region, so that the address sanitizer sees every step beyond it.
    run->memory[i].resize(bytes);
    fill(&run->memory[i], i);
    sim::Region region;
    region.name = "region" + std::to_string(i);
    region.address = word(pair);
    region.bytes = {run->memory[i].data(), run->memory[i].size()};
    run->regions.push_back(region);
  }
  for (uint32_t i = 0; i < tasks; ++i, pair += kPairBytes) {
    run->job.tasks.push_back({word(pair), word(pair + 4), ""});
  }
  const size_t rest = std::min(size - head, run->memory[0].size());
  std::memcpy(run->memory[0].data(), data + head, rest);
  return true;
}

// True if running the tasks is cheap; false as well if checking them ends in a fault.
bool is_cheap(const Run& run) {
  sim::Settings settings = run.settings;
  settings.dry_run = true;
  settings.counters = true;
  const std::vector<sim::Job> jobs{run.job};
  try {
    sim::Simulator simulator(settings);
    const sim::RunFacts facts =
        simulator.run({run.regions.data(), run.regions.size()}, {jobs.data(), jobs.size()});
    uint64_t macs = 0;
    uint64_t moved = 0;
    for (const sim::TaskCounters& t : facts.tasks) {
      macs += t.macs;
      moved += t.feature_bytes + t.operands.all() + t.written_bytes;
    }
    return macs <= kMaxMacs && moved <= kMaxMovedBytes;
  } catch (const sim::Fault&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Run run;
  if (!parse(data, size, &run) || !is_cheap(run)) return 0;
  const std::vector<sim::Job> jobs{run.job};
  try {
    sim::Simulator simulator(run.settings);
    simulator.run({run.regions.data(), run.regions.size()}, {jobs.data(), jobs.size()});
  } catch (const sim::Fault&) {
  }
  return 0;
}
