#include "evidence/board_evidence.h"

#include <unistd.h>

#include <map>
#include <utility>

namespace rk3588 {

std::shared_ptr<BoardEvidence> BoardEvidence::of(const std::string& folder, const BoardKey& key) {
  static std::mutex guard;
  static std::map<std::pair<pid_t, std::string>, std::shared_ptr<BoardEvidence>> boards;
  std::string text = folder;
  for (const auto& [name, value] : key) text += "\n" + name + "=" + value;
  const std::lock_guard<std::mutex> lock(guard);
  std::shared_ptr<BoardEvidence>& board = boards[{getpid(), text}];
  if (board == nullptr) board = std::make_shared<BoardEvidence>(folder, key);
  return board;
}

std::string BoardEvidence::refusal(const std::string& name) const {
  const std::string state = record.state(name);
  const bool is_off = is_state(state, kFailed) || is_state(state, kHung) ||
                      (is_state(state, kSuspected) && hung_here_.count(name) != 0);
  return is_off ? state : "";
}

void BoardEvidence::blame(const std::string& name, const Shortfall& shortfall) {
  const char* word = kFailed;
  if (shortfall.kind == Shortfall::Kind::kHangs) {
    const bool is_second = is_state(record.state(name), kSuspected) && hung_here_.count(name) == 0;
    word = is_second ? kHung : kSuspected;
    hung_here_.insert(name);
  }
  record.set(name, word + (": " + shortfall.text));
}

void BoardEvidence::forgive(const std::string& name) {
  if (is_state(record.state(name), kSuspected) && hung_here_.count(name) == 0) record.forget(name);
}

}  // namespace rk3588
