// How far a run came that did not end: marks where each task writes first.
//
// They cost a synchronisation of all memory, so they are set for the first run and where results
// are verified.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/device.h"
#include "host/run_mark.h"

namespace rk3588 {

class RunProgress {
 public:
  // `submission`: of `submit`, with the first address that each task writes, in order.
  RunProgress(const Submission& submission, const Submit& submit) {
    for (const JobRef& job : submit.jobs) {
      for (const TaskRef& task : job.tasks) layers_.push_back(task.layer);
    }
    const Span<const uint64_t> targets = submission.task_targets();
    std::map<uint64_t, size_t> last_writer;
    for (size_t i = 0; i < targets.size(); ++i) {
      targets_.push_back(atom_at(submit.outputs, targets[i]));
      const auto [entry, is_new] = last_writer.insert({targets[i], i});
      if (is_new) continue;
      targets_[entry->second] = nullptr;
      entry->second = i;
    }
  }
  // Called before the buffers are given to the device. Marks every task's target, or none.
  void mark(bool tasks) {
    tasks_marked_ = tasks;
    if (!tasks) return;
    mark_.renew();
    for (uint8_t* place : targets_) {
      if (place != nullptr) mark_.put(place);
    }
  }
  // These need memory that was synchronised for the host. Where the run stopped, as far as the
  // marks tell, for the end of a message.
  std::string text() const {
    const std::string total = std::to_string(layers_.size());
    if (layers_.empty()) return {};
    if (layers_.size() == 1) return "the only task is " + layers_[0];
    if (tasks_marked_) {
      const size_t first = first_marked();
      if (first == targets_.size())
        return "every task began to write; the last is " + layers_.back();
      return "the first task without a result is " + layers_[first] + " (" +
             std::to_string(first + 1) + " of " + total + ")";
    }
    return "one of the " + total + " tasks from " + layers_.front() + " to " + layers_.back() +
           " (option verify=sim names it)";
  }
  // The task that did not finish, where the marks tell.
  std::optional<size_t> stopped_at() const {
    if (layers_.size() == 1) return 0;
    if (!tasks_marked_ || targets_.size() != layers_.size()) return std::nullopt;
    const size_t first = first_marked();
    // Tasks without a mark, as those of other cores, may have stopped as well.
    if (first > 0 && targets_[first - 1] == nullptr) return std::nullopt;
    return first == targets_.size() ? first - 1 : first;
  }

 private:
  static uint8_t* atom_at(const std::vector<Buffer*>& memory, uint64_t address) {
    const auto at = find_address(memory, address);
    if (!at) return nullptr;
    const Span<uint8_t> bytes = memory[at->index]->bytes();
    return RunMark::kBytes > bytes.size() - at->offset ? nullptr : bytes.data() + at->offset;
  }

  // The first task whose mark is still there; as many as there are: none.
  size_t first_marked() const {
    size_t first = 0;
    while (first < targets_.size() &&
           (targets_[first] == nullptr || !RunMark::is_any_at(targets_[first]))) {
      ++first;
    }
    return first;
  }

  std::vector<uint8_t*> targets_;  // by task; nullptr: a later task writes there, too
  std::vector<std::string> layers_;
  RunMark mark_;
  bool tasks_marked_ = false;
};

}  // namespace rk3588
