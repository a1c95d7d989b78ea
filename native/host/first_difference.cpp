#include "host/first_difference.h"

#include <algorithm>
#include <cstring>

#include "host/stream_verifier.h"

namespace rk3588 {
namespace {

constexpr size_t kNobody = SIZE_MAX;

// The last task that wrote each atom of a buffer.
std::vector<size_t> owners(Buffer& buffer, const VerifiedJobs& jobs) {
  const uint64_t begin = buffer.dma_address();
  const uint64_t end = begin + buffer.bytes().size();
  std::vector<size_t> found(buffer.bytes().size() / kAtomBytes, kNobody);
  size_t task = 0;
  for (const std::vector<VerifiedTask>& job : jobs) {
    for (const VerifiedTask& item : job) {
      for (size_t i = 0; i < item.access.real_writes; ++i) {
        const sim::AddressRange& range = item.access.writes[i];
        if (range.begin < begin || range.end > end) continue;
        const auto first =
            found.begin() + static_cast<ptrdiff_t>((range.begin - begin) / kAtomBytes);
        std::fill_n(first, (range.end - range.begin) / kAtomBytes, task);
      }
      ++task;
    }
  }
  return found;
}

}  // namespace

std::string first_difference(const Submit& submit, const std::vector<ComparedBuffer>& buffers) {
  const VerifiedJobs jobs = verify_streams(submit);
  size_t first = kNobody;
  for (const ComparedBuffer& item : buffers) {
    const std::vector<size_t> owner = owners(*item.buffer, jobs);
    const uint8_t* bytes = item.buffer->bytes().data();
    for (size_t atom = 0; atom < owner.size(); ++atom) {
      const size_t at = atom * kAtomBytes;
      if (owner[atom] >= first || at + kAtomBytes > item.other.size()) continue;
      if (std::memcmp(bytes + at, item.other.data() + at, kAtomBytes) != 0) first = owner[atom];
    }
  }
  if (first == kNobody) return {};
  for (const JobRef& job : submit.jobs) {
    if (first < job.tasks.size()) return job.tasks[first].layer;
    first -= job.tasks.size();
  }
  return {};
}

}  // namespace rk3588
