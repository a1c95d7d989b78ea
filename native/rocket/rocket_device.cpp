#include "rocket/rocket_device.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "host/devices.h"
#include "rocket/rocket_buffer.h"

namespace rk3588 {
namespace {

RocketBuffer& rocket_buffer(Buffer& buffer) { return static_cast<RocketBuffer&>(buffer); }

}  // namespace

RocketDevice::RocketDevice(std::shared_ptr<RocketFile> file, std::string cores, const Chip& chip)
    : file_(std::move(file)), cores_(std::move(cores)), chip_(chip) {}

std::unique_ptr<Buffer> RocketDevice::allocate(size_t size, BufferId) {
  return std::make_unique<RocketBuffer>(file_, size);
}

void RocketDevice::sync_for_device(Buffer& buffer) { rocket_buffer(buffer).give_to_device(); }

void RocketDevice::sync_for_cpu(Buffer& buffer) {
  rocket_buffer(buffer).hold(monotonic_ns() + kRocketCloseWaitNs);
}

std::unique_ptr<Submission> RocketDevice::prepare(const Submit& submit) {
  require_runs(*this, submit);
  return make_rocket_submission(file_, submit, verify_streams(submit));
}

std::shared_ptr<Device> RocketDevice::open_stream() {
  return make_rocket_device(file_->file.path(), cores_, chip_);
}

std::vector<std::shared_ptr<Device>> RocketDevice::open_cores() {
  std::vector<std::shared_ptr<Device>> devices;
  for (size_t i = usable_cores(cores_, chip()).size(); i > 0; --i) {
    const auto file = RocketFile::open(file_->file.path(), chip_);
    devices.push_back(std::make_shared<RocketDevice>(file, cores_, chip_));
  }
  return devices;
}

// With a list of cores, streams share as many files, in turn.
std::shared_ptr<Device> make_rocket_device(const std::string& node, const std::string& cores,
                                           const Chip& chip) {
  const size_t limit = parse_cores(cores, chip).size();
  if (limit == 0) {
    return std::make_shared<RocketDevice>(RocketFile::open(node, chip), cores, chip);
  }
  struct Shared {
    size_t turn = 0;
    std::map<size_t, std::weak_ptr<RocketFile>> files;
  };
  static std::mutex mutex;
  // A forked child must not use its parent's files.
  static std::map<std::tuple<pid_t, std::string, size_t>, Shared> all;
  const std::lock_guard<std::mutex> lock(mutex);
  Shared& shared = all[{getpid(), node, limit}];
  std::weak_ptr<RocketFile>& place = shared.files[shared.turn++ % limit];
  std::shared_ptr<RocketFile> file = place.lock();
  if (file == nullptr) {
    file = RocketFile::open(node, chip);
    place = file;
  }
  return std::make_shared<RocketDevice>(std::move(file), cores, chip);
}

}  // namespace rk3588
