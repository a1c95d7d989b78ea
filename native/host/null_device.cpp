// Accepts every submit and computes nothing: measures the host's share of an invoke.
#include "host/devices.h"
#include "host/host_memory.h"

namespace rk3588 {
namespace {

class NullDevice : public HostDevice {
 public:
  std::string name() const override { return "null"; }
  bool computes() const override { return false; }
  bool runs(const Chip&) const override { return true; }

 private:
  void run(const Submit&) override {}
};

}  // namespace

std::shared_ptr<Device> make_null_device() { return std::make_shared<NullDevice>(); }

}  // namespace rk3588
