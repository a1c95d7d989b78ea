#include "host/proof_plan.h"

#include <algorithm>
#include <map>
#include <string>

#include "host/run_mark.h"

namespace rk3588 {
namespace {

using sim::AddressRange;

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

// What it writes, it does not only read as well.
bool can_be_proved(const VerifiedTask& task) {
  Candidates left = candidates_of(task.access);
  remove(task.access.reads, &left);
  return !left.empty();
}

// The longest run of tasks that ends before `end` and has a mark.
ProvenTasks last_piece(Span<const VerifiedTask* const> tasks, size_t end) {
  Candidates left = candidates_of(tasks[end - 1]->access);
  remove(tasks[end - 1]->access.reads, &left);
  ProvenTasks piece;
  bool inherits = false;
  bool needs_load = false;
  for (size_t first = end; first-- > 0;) {
    if (first + 1 < end) {
      remove(tasks[first]->access.reads, &left);
      remove(tasks[first]->access.writes, &left);
    }
    if (left.empty()) break;
    inherits = inherits || tasks[first]->inherits;
    needs_load =
        tasks[first]->access.looks_up || (needs_load && !tasks[first]->access.loads_tables);
    const bool is_bound = inherits || needs_load || tasks[first]->reuses_cbuf;
    if (first > 0 && (is_bound || !can_be_proved(*tasks[first - 1]))) continue;
    const auto best = std::min_element(
        left.begin(), left.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    piece = {first, end - first, best->first};
  }
  return piece;
}

}  // namespace

std::vector<ProvenTasks> plan_proof(Span<const VerifiedTask* const> tasks, bool needed) {
  std::vector<ProvenTasks> pieces;
  for (size_t end = tasks.size(); end > 0; end = pieces.back().first) {
    pieces.push_back(last_piece(tasks, end));
    if (pieces.back().count != 0) continue;
    if (!needed) return {{0, tasks.size(), kNoMark}};
    throw StreamError("refused before it reached the NPU: nothing would show that task " +
                      std::to_string(end - 1) +
                      " ran: all that it writes is touched otherwise; compile the model again");
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace rk3588
