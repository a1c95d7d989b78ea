// Runs serialised programs from many threads, each with its own executables, on the device named,
// and compares every result with the first one of the same program and input. For sanitizers.
//
//   kernel_stress DEVICE CORES THREADS INVOKES PROGRAM...
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "host/devices.h"
#include "program/executable.h"

namespace {

using rk3588::Binding;
using rk3588::Executable;

using Tensor = std::vector<uint8_t>;

std::vector<uint8_t> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<Tensor> make_inputs(const Executable& executable, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (const Binding& binding : executable.inputs()) {
    Tensor tensor(binding.host_bytes());
    for (uint8_t& byte : tensor) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      byte = static_cast<uint8_t>(seed >> 56);
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

std::vector<Tensor> run(Executable& executable, uint64_t seed) {
  const std::vector<Tensor> inputs = make_inputs(executable, seed);
  std::vector<Tensor> outputs;
  std::vector<const uint8_t*> sources;
  std::vector<uint8_t*> targets;
  for (const Tensor& tensor : inputs) sources.push_back(tensor.data());
  for (const Binding& binding : executable.outputs()) outputs.emplace_back(binding.host_bytes());
  for (Tensor& tensor : outputs) targets.push_back(tensor.data());
  executable.run(sources, targets);
  return outputs;
}

constexpr uint64_t kSeeds = 3;

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const std::string device = argv[1];
  const rk3588::DeviceSettings settings{argv[2], false};
  const int threads = std::atoi(argv[3]);
  const int invokes = std::atoi(argv[4]);
  std::vector<std::vector<uint8_t>> programs;
  for (int i = 5; i < argc; ++i) programs.push_back(read_file(argv[i]));

  // Expected: the simulator as a device, one thread.
  std::vector<std::vector<std::vector<Tensor>>> expected(programs.size());
  for (size_t p = 0; p < programs.size(); ++p) {
    Executable executable(programs[p], {rk3588::make_simulator_device(), 0, nullptr});
    for (uint64_t seed = 0; seed < kSeeds; ++seed) expected[p].push_back(run(executable, seed));
  }

  std::mutex mutex;
  int failures = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      try {
        std::vector<std::unique_ptr<Executable>> executables;
        const auto opened = rk3588::open_device(device, settings);
        for (const auto& program : programs) {
          executables.push_back(
              std::make_unique<Executable>(program, rk3588::RunSettings{opened, 60'000, nullptr}));
        }
        for (int i = 0; i < invokes; ++i) {
          const size_t p = static_cast<size_t>(t + i) % programs.size();
          const uint64_t seed = static_cast<uint64_t>(t * 7 + i) % kSeeds;
          if (run(*executables[p], seed) != expected[p][seed]) {
            const std::lock_guard<std::mutex> lock(mutex);
            std::fprintf(stderr, "thread %d invoke %d: program %zu gave another result\n", t, i, p);
            ++failures;
          }
        }
      } catch (const std::exception& error) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::fprintf(stderr, "thread %d: %s\n", t, error.what());
        ++failures;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  std::printf("%d threads, %d invokes each, %zu programs: %d failures, %llu submits\n", threads,
              invokes, programs.size(), failures,
              static_cast<unsigned long long>(rk3588::submit_count()));
  std::fflush(stdout);
  // The stand-in's core threads never end.
  std::_Exit(failures == 0 ? 0 : 1);
}
