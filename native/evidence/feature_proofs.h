// Proof at first use: before a program runs on an NPU, every feature that it uses and that this
// board has not shown yet runs a tiny program whose result is known.
//
// In order: the safest first, and a feature only after those that its proof rests on. First on one
// core; then on all at the same time. What was found is kept (Record): a feature that computed
// something else, or did not finish, is switched off on this board until the kernel, the driver or
// this software is another one, or somebody deletes the file.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "chip/feature_match.h"
#include "evidence/record.h"
#include "host/device.h"
#include "program/feature_gate.h"

namespace rk3588 {

struct PackedProof;
struct ProofTable;
struct ProofSettings {
  std::string prove = "auto";  // "auto": of devices with a kernel driver; "off"; "always"
  std::string cache_dir = "off";
  std::string cores = "auto";
  uint32_t timeout_ms = 0;  // 0: the device's default
};

struct MissingFeature {
  std::string name;
  std::string reason;  // "failed: ...", "hung: ...", or what it rests on
};

class FeatureProofs : public FeatureGate {
 public:
  // nullptr where nothing has to be proved. `warn` gets whole sentences, from any thread that calls
  // the members.
  static std::shared_ptr<FeatureProofs> of(std::shared_ptr<Device> device,
                                           const ProofSettings& settings,
                                           std::function<void(const std::string&)> warn);

  // The features that the program uses and this board lacks. Runs proofs as needed; throws
  // DeviceError if the device fails for a reason that says nothing about features.
  std::vector<MissingFeature> missing(const Program& program);
  void require(const Program& program) override;

  // What is proved before states() answers.
  enum class Wanted { kNothing, kUntried, kAll };
  // What the board has shown of every feature, in the chip's order; "" or, behind proofs, why there
  // was none, for those never tried.
  std::vector<std::string> states(Wanted wanted);
  const FeatureTable& features() const { return features_; }
  std::string record_path() const { return record_.path(); }

 private:
  FeatureProofs(std::shared_ptr<Device> device, const ProofSettings& settings,
                std::function<void(const std::string&)> warn);

  bool is_settled(const FeatureSet& features) const;
  void settle(const FeatureSet& features);
  void prove(size_t number);
  std::string outcome(size_t number);
  // As the record has it.
  std::string shown(size_t feature) const {
    return record_.state(features_.features[feature].name);
  }
  // The first feature that a proof rests on and the board has not shown; nullptr: none.
  const char* lacking_below(const PackedProof& proof) const;
  std::string reason(size_t feature) const;
  std::string where() const;
  void tell();

  std::shared_ptr<Device> device_;
  const FeatureTable& features_;  // of the device's chip, as the proofs
  const ProofTable& proofs_;
  uint32_t timeout_ms_;
  std::function<void(const std::string&)> warn_;
  Record record_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Device>> cores_;
  FeatureSet told_;        // who heard that a feature is switched off
  bool has_told_ = false;  // that nothing is kept
};

}  // namespace rk3588
