// The record of a board in this process, and what happened in the process alone.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "evidence/record.h"
#include "program/program_gate.h"

namespace rk3588 {

// Of a program: it was begun, and nobody lived to say more; the same for the second time; it was
// right on generated inputs; its first inference was right, too.
inline constexpr char kStarted[] = "started";
inline constexpr char kStartedAgain[] = "started again";
inline constexpr char kRan[] = "ran";
inline constexpr char kVerified[] = "verified";
// Its first inference was wrong, and nobody has asked why yet.
inline constexpr char kWrong[] = "wrong";
// Of a program or of what its tasks use: computes something else; does not end; did not end once.
inline constexpr char kFailed[] = "failed";
inline constexpr char kHung[] = "hung";
inline constexpr char kSuspected[] = "suspected";

// Whether a state begins with one of these words.
inline bool is_state(const std::string& state, const char* word) {
  return state.rfind(word, 0) == 0;
}

class BoardEvidence {
 public:
  BoardEvidence(const std::string& folder, BoardKey key) : record(folder, std::move(key)) {}

  // That of this process; a forked child has its own.
  static std::shared_ptr<BoardEvidence> of(const std::string& folder, const BoardKey& key);

  // Held around all of the rest.
  std::mutex mutex;
  Record record;

  // Why it must not be used now; "": it may.
  std::string refusal(const std::string& name) const;
  void blame(const std::string& name, const Shortfall& shortfall);
  // It was right. What this process has seen hang stays suspected.
  void forgive(const std::string& name);
  // Whether nobody has told of it in this process.
  bool is_news(const std::string& name) { return told_.insert(name).second; }

 private:
  std::set<std::string> hung_here_;
  std::set<std::string> told_;
};

}  // namespace rk3588
