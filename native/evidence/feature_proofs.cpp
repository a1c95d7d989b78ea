#include "evidence/feature_proofs.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <thread>

#include "evidence/feature_use.h"
#include "evidence/proofs_gen.h"
#include "evidence/unpack.h"
#include "host/drm_file.h"
#include "program/executable.h"

namespace rk3588 {
namespace {

static_assert(kMaxFeatures <= 64, "PackedProof::rests_on has a bit per feature");

// A feature without one would be switched off on every board.
constexpr bool has_every_feature_a_proof() {
  for (size_t chip = 0; chip < kFeatureTables.size(); ++chip) {
    const ProofTable& table = kProofTables[chip];
    uint64_t proved = 0;
    for (size_t i = 0; i < table.count; ++i) proved |= uint64_t{1} << table.proofs[i].feature;
    for (size_t i = 0; i < kFeatureTables[chip].count; ++i) {
      if ((proved >> i & 1) == 0) return false;
    }
  }
  return true;
}
static_assert(kProofTables.size() == kFeatureTables.size() && has_every_feature_a_proof(),
              "run python -m delegate.evidence.header");

size_t table_number(const Chip& chip) {
  return chip.register_map < kProofTables.size() ? chip.register_map : 0;
}

// One for each chip: a process meets one chip, and unpacks its proofs only.
const std::vector<uint8_t>& proofs_content(size_t number) {
  static std::array<std::vector<uint8_t>, kProofTables.size()> contents;
  static std::array<std::once_flag, kProofTables.size()> flags;
  const ProofTable& table = kProofTables[number];
  std::call_once(flags[number], [&] { contents[number] = unpack(table.packed, table.bytes); });
  return contents[number];
}

std::string first_line(const char* path) {
  std::string line;
  if (std::FILE* file = std::fopen(path, "re")) {
    for (int c = std::fgetc(file); c > 0 && c != '\n' && line.size() < 200; c = std::fgetc(file)) {
      line += static_cast<char>(c);
    }
    std::fclose(file);
  }
  return line;
}

BoardKey board_key(const Device& device, const std::string& cores) {
  utsname system{};
  uname(&system);
  char proofs[16];
  std::snprintf(proofs, sizeof(proofs), "%08x", kProofTables[table_number(device.chip())].crc);
  const std::string driver = device.driver();
  return {
      {"chip", std::string(device.chip().name)},
      {"driver", driver.empty() ? device.name() : driver},
      {"kernel", std::string(system.release) + " " + system.version},
      {"board", first_line("/proc/device-tree/model")},
      {"cores", cores},
      {"delegate", std::string(kDelegateVersion) + " proofs " + proofs},
  };
}

constexpr char kNotTried[] = "it was not tried";

// Says nothing about what the NPU can do.
bool is_of_the_system(const KernelError& error) {
  constexpr int kNumbers[] = {ENOMEM, ENOSPC, EMFILE, ENFILE, EACCES, EPERM, ENODEV, ENXIO};
  return std::find(std::begin(kNumbers), std::end(kNumbers), error.number) != std::end(kNumbers);
}

// Runs one proof on one core as often as programs meet it: fresh, and behind itself.
class ProofRun {
 public:
  ProofRun(const PackedProof& proof, const std::shared_ptr<Device>& device, uint32_t timeout_ms)
      : proof_(proof),
        content_(proofs_content(table_number(device->chip())).data() + proof.offset),
        executable_(Span<const uint8_t>(content_, proof.program_bytes),
                    RunSettings{device, timeout_ms, nullptr, 0, nullptr, 0}),
        result_(proof.expected_bytes) {}

  // "proved", "failed: ..." or "hung: ...". Throws KernelError.
  std::string run() {
    try {
      std::string state;
      for (int turn = 0; turn < 2 && state.empty(); ++turn) {
        std::fill(result_.begin(), result_.end(), uint8_t{0});
        std::vector<uint8_t*> outputs = {result_.data()};
        executable_.run({}, outputs);
        state = difference();
      }
      return state.empty() ? kProved : state;
    } catch (const KernelError& error) {
      if (is_of_the_system(error)) throw;
      return std::string(kHung) + ": " + error.what();
    } catch (const DeviceError& error) {
      return std::string(kHung) + ": " + error.what();
    }
  }

 private:
  std::string difference() const {
    const uint8_t* expected = content_ + proof_.program_bytes;
    size_t different = 0;
    for (size_t i = 0; i < result_.size(); ++i) different += result_[i] != expected[i] ? 1 : 0;
    if (different == 0) return {};
    return std::string(kFailed) + ": " + std::to_string(different) + " of " +
           std::to_string(result_.size()) + " bytes of its proof differ";
  }

  const PackedProof& proof_;
  const uint8_t* content_;
  Executable executable_;
  std::vector<uint8_t> result_;
};

// At the same time, so that a kernel that chooses the core takes them all.
std::string run_on_all(std::vector<std::unique_ptr<ProofRun>>& runs) {
  std::vector<std::string> states(runs.size());
  std::vector<std::exception_ptr> errors(runs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < runs.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        states[i] = runs[i]->run();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i] != kProved) return states[i] + " (stream " + std::to_string(i) + ")";
  }
  return kProved;
}

}  // namespace

std::shared_ptr<FeatureProofs> FeatureProofs::of(std::shared_ptr<Device> device,
                                                 const ProofSettings& settings,
                                                 std::function<void(const std::string&)> warn) {
  const bool is_npu = !device->driver().empty();
  const bool wanted = settings.prove == "always" ? device->computes() : is_npu;
  if (settings.prove == "off" || !wanted) return nullptr;
  return std::shared_ptr<FeatureProofs>(
      new FeatureProofs(std::move(device), settings, std::move(warn)));
}

FeatureProofs::FeatureProofs(std::shared_ptr<Device> device, const ProofSettings& settings,
                             std::function<void(const std::string&)> warn)
    : device_(std::move(device)),
      features_(feature_table(device_->chip())),
      proofs_(kProofTables[table_number(device_->chip())]),
      timeout_ms_(settings.timeout_ms),
      warn_(std::move(warn)),
      record_(settings.cache_dir == "off" ? default_cache_folder() : settings.cache_dir,
              board_key(*device_, settings.cores)) {}

std::vector<MissingFeature> FeatureProofs::missing(const Program& program) {
  // A simulator runs the programs of other chips, too: what they use is not this one's.
  if (program.chip->name != device_->chip().name) return {};
  const std::lock_guard<std::mutex> lock(mutex_);
  const FeatureSet used = features_of(program);
  settle(used);
  std::vector<MissingFeature> found;
  for (size_t i = 0; i < features_.count; ++i) {
    if (!used[i] || shown(i) == kProved) continue;
    found.push_back({features_.features[i].name, reason(i)});
  }
  if (!found.empty()) tell();
  return found;
}

// Names what is switched off, each feature once.
void FeatureProofs::tell() {
  std::string others;
  for (size_t number = 0; number < proofs_.count; ++number) {
    const PackedProof& proof = proofs_.proofs[number];
    const size_t i = proof.feature;
    const std::string name = features_.features[i].name;
    const std::string state = record_.state(name);
    if (state == kProved || told_[i]) continue;
    if (state.empty()) {
      if (reason(i) == kNotTried) continue;
      others += (others.empty() ? "" : ", ") + name;
    } else {
      warn_("feature " + name + " is switched off on this board (" + reason(i) +
            "); without it: " + features_.features[i].without + "; " + where());
    }
    told_[i] = true;
  }
  if (!others.empty()) warn_("switched off with what they rest on: " + others);
}

void FeatureProofs::require(const Program& program) {
  const std::vector<MissingFeature> lacking = missing(program);
  if (lacking.empty()) return;
  const MissingFeature& first = lacking.front();
  throw DeviceError(device_->name() + ": program " + program.name + " needs the feature " +
                    first.name + ", which this board does not have (" + first.reason +
                    "); use the original model, which is compiled without it; " + where());
}

std::vector<std::string> FeatureProofs::states(Wanted wanted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (wanted == Wanted::kAll) {
    for (size_t i = 0; i < features_.count; ++i) record_.forget(features_.features[i].name);
  }
  if (wanted != Wanted::kNothing) {
    FeatureSet all;
    for (size_t i = 0; i < features_.count; ++i) all.set(i);
    settle(all);
  }
  std::vector<std::string> found;
  for (size_t i = 0; i < features_.count; ++i) {
    const std::string known = shown(i);
    found.push_back(known.empty() && wanted != Wanted::kNothing ? reason(i) : known);
  }
  return found;
}

bool FeatureProofs::is_settled(const FeatureSet& features) const {
  for (size_t i = 0; i < features_.count; ++i) {
    if (features[i] && shown(i).empty()) return false;
  }
  return true;
}

// Proves what of `features`, and of what they rest on, nobody has tried.
void FeatureProofs::settle(const FeatureSet& features) {
  if (is_settled(features)) return;
  const RecordLock lock(record_.path());
  record_.read();
  FeatureSet wanted = features;
  // Proofs stand behind those they rest on.
  for (size_t i = proofs_.count; i-- > 0;) {
    const PackedProof& proof = proofs_.proofs[i];
    if (wanted[proof.feature]) wanted |= FeatureSet(proof.rests_on);
  }
  for (size_t i = 0; i < proofs_.count; ++i) {
    if (wanted[proofs_.proofs[i].feature]) prove(i);
  }
  cores_.clear();
  if (!record_.problem().empty() && !has_told_) {
    warn_("results of proofs: " + record_.problem() +
          "; every process proves the features again; option cache_dir names a folder");
    has_told_ = true;
  }
}

void FeatureProofs::prove(size_t number) {
  const PackedProof& proof = proofs_.proofs[number];
  const std::string name = features_.features[proof.feature].name;
  if (!record_.state(name).empty()) return;
  if (lacking_below(proof) != nullptr) return;
  record_.set(name, kStarted);
  std::string state;
  try {
    state = outcome(number);
  } catch (...) {
    record_.forget(name);
    throw;
  }
  record_.set(name, state);
  if (state != kProved) cores_.clear();  // a stream whose job hung may stay stuck
}

const char* FeatureProofs::lacking_below(const PackedProof& proof) const {
  for (size_t i = 0; i < features_.count; ++i) {
    if ((proof.rests_on >> i & 1) != 0 && shown(i) != kProved) return features_.features[i].name;
  }
  return nullptr;
}

std::string FeatureProofs::outcome(size_t number) {
  if (cores_.empty()) cores_ = device_->open_cores();
  if (cores_.empty()) cores_ = {device_};
  std::vector<std::unique_ptr<ProofRun>> runs;
  const auto add = [&](const std::shared_ptr<Device>& core) {
    runs.push_back(std::make_unique<ProofRun>(proofs_.proofs[number], core, timeout_ms_));
  };
  add(cores_.front());
  const std::string state = runs.front()->run();
  if (state != kProved || cores_.size() == 1) return state;
  std::for_each(cores_.begin() + 1, cores_.end(), add);
  const std::string together = run_on_all(runs);
  // Nobody has shown that cores that share CBUF can work at the same time.
  const bool may_do_alone = together != kProved && device_->chip().cbuf_is_shared != 0;
  return together + (may_do_alone ? "; one core alone computes it: option cores=0" : "");
}

std::string FeatureProofs::where() const {
  return record_.path().empty() ? "results of proofs are not kept: " + record_.problem()
                                : "to prove it again delete " + record_.path();
}

std::string FeatureProofs::reason(size_t feature) const {
  const std::string known = shown(feature);
  if (known == kStarted) return "hung: nobody lived to see its proof end";
  if (!known.empty()) return known;
  for (size_t number = 0; number < proofs_.count; ++number) {
    const PackedProof& proof = proofs_.proofs[number];
    if (proof.feature != feature) continue;
    const char* lacking = lacking_below(proof);
    if (lacking != nullptr) {
      return std::string("it rests on ") + lacking + ", which the board lacks";
    }
  }
  return kNotTried;
}

}  // namespace rk3588
