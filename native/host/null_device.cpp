// Accepts every submit and computes nothing: measures the host's share of an invoke.
#include "host/devices.h"
#include "host/host_memory.h"

namespace rk3588 {
namespace {

class NullDevice : public Device {
 public:
  std::string name() const override { return "null"; }
  bool computes() const override { return false; }
  std::unique_ptr<Buffer> allocate(size_t size, BufferId id) override {
    return std::make_unique<HostBuffer>(space_, size, id);
  }

  std::shared_ptr<Buffer> constants(Span<const uint8_t> content, size_t size) override {
    return std::make_shared<HostBuffer>(space_, shared_host_constants(content, size),
                                        BufferId::kConstants);
  }
  void sync_for_device(Buffer&) override {}
  void sync_for_cpu(Buffer&) override {}
  void submit(const Submit&) override {}

 private:
  std::shared_ptr<AddressSpace> space_ = std::make_shared<AddressSpace>();
};

}  // namespace

std::shared_ptr<Device> make_null_device() { return std::make_shared<NullDevice>(); }

}  // namespace rk3588
