#include "host/piece_submission.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rk3588 {
namespace {

using sim::AddressRange;

// No address: every device address fits 32 bits.
constexpr uint64_t kNoMark = UINT64_MAX;

// Atoms that may be marked, by address, with their rank: the less the better.
using Candidates = std::map<uint64_t, size_t>;

// The last and the first atom of every surface of real channels: of a strided cube only these are
// known to be written. The last surface's last one is written last.
Candidates candidates_of(const sim::TaskAccess& last) {
  Candidates found;
  for (size_t i = last.real_writes; i-- > 0;) {
    const AddressRange& surface = last.writes[i];
    for (const uint64_t atom : {surface.end - RunMark::kBytes, surface.begin}) {
      found.insert({atom, found.size()});
    }
  }
  return found;
}

void remove(const std::vector<AddressRange>& touched, Candidates* candidates) {
  for (const AddressRange& range : touched) {
    const uint64_t first = range.begin - std::min<uint64_t>(range.begin, RunMark::kBytes - 1);
    const auto begin = candidates->lower_bound(first);
    candidates->erase(begin, candidates->lower_bound(range.end));
  }
}

// Whether the task writes an atom that it does not read.
bool can_be_proved(const VerifiedTask& task) {
  Candidates left = candidates_of(task.access);
  remove(task.access.reads, &left);
  return !left.empty();
}

// Tasks [first, end) of all of a submit, and their mark.
struct Proven {
  size_t first = 0;
  size_t end = 0;
  uint64_t mark = kNoMark;
};

// The longest run of tasks that ends before `end` and has a mark; empty if there is none.
Proven last_piece(const std::vector<const VerifiedTask*>& tasks, size_t end) {
  Candidates left = candidates_of(tasks[end - 1]->access);
  remove(tasks[end - 1]->access.reads, &left);
  Proven piece{end, end, kNoMark};
  bool inherits = false;
  bool needs_load = false;
  for (size_t first = end; first-- > 0;) {
    if (first + 1 < end) {
      remove(tasks[first]->access.reads, &left);
      remove(tasks[first]->access.writes, &left);
    }
    if (left.empty()) break;
    inherits = inherits || tasks[first]->access.inherits;
    needs_load =
        tasks[first]->access.looks_up || (needs_load && !tasks[first]->access.loads_tables);
    const bool is_bound = inherits || needs_load || tasks[first]->access.reuses_cbuf;
    if (first > 0 && (is_bound || !can_be_proved(*tasks[first - 1]))) continue;
    const auto best = std::min_element(
        left.begin(), left.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    piece = {first, end, best->first};
  }
  return piece;
}

std::vector<Proven> prove(const std::vector<const VerifiedTask*>& tasks, bool is_needed) {
  std::vector<Proven> pieces;
  for (size_t end = tasks.size(); end > 0; end = pieces.back().first) {
    pieces.push_back(last_piece(tasks, end));
    if (pieces.back().first < end) continue;
    if (!is_needed) return {{0, tasks.size(), kNoMark}};
    throw StreamError("refused before it reached the NPU: nothing would show that task " +
                      std::to_string(end - 1) +
                      " ran: all that it writes is touched otherwise; compile the model again");
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

PieceSubmission::PieceSubmission(std::string device, const Submit& submit,
                                 const VerifiedJobs& verified)
    : device_(std::move(device)) {
  std::vector<const VerifiedTask*> tasks;
  std::vector<JobPart> places;  // of the tasks
  for (size_t job = 0; job < submit.jobs.size(); ++job) {
    for (size_t task = 0; task < verified[job].size(); ++task) {
      tasks.push_back(&verified[job][task]);
      places.push_back({job, task, 1});
      targets_.push_back(tasks.back()->target);
    }
  }
  for (const Proven& proven : prove(tasks, !submit.outputs_hold_content)) {
    std::vector<JobPart>& parts = pieces_.emplace_back();
    for (size_t i = proven.first; i < proven.end; ++i) {
      if (!parts.empty() && parts.back().job == places[i].job) {
        ++parts.back().count;
      } else {
        parts.push_back(places[i]);
      }
    }
    Mark& mark = marks_.emplace_back();
    if (proven.mark == kNoMark) continue;
    const auto at = find_address(submit.outputs, proven.mark);
    if (!at) throw StreamError("a job writes outside the outputs of its submit");
    const JobPart& last = places[proven.end - 1];
    mark = {submit.outputs[at->index], at->offset, submit.jobs[last.job].tasks[last.first].layer};
  }
}

int64_t PieceSubmission::run() {
  int64_t waited_ns = 0;
  bool is_told = true;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Mark& mark = marks_[i];
    if (mark.buffer != nullptr) {
      pattern_.renew();
      take_atom(*mark.buffer, mark.offset);
      pattern_.put(mark.bytes());
      give_atom(*mark.buffer, mark.offset);
    }
    const int64_t ns = run_piece(i);
    is_told = is_told && ns != 0;
    waited_ns += ns;
    if (mark.buffer == nullptr) continue;
    take_atom(*mark.buffer, mark.offset);
    if (!pattern_.is_at(mark.bytes())) continue;
    throw DeviceError(device_ + ": nothing was written by " +
                      (mark.layer.empty() ? "the last task" : mark.layer) +
                      ": the kernel dropped the job or reset the NPU (see dmesg, run `doctor`)");
  }
  return is_told ? waited_ns : 0;
}

}  // namespace rk3588
