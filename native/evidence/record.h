// The record of a board: a file per board, driver, kernel and version of ours.
//
// The file is JSON of one form, a line per program or form of tasks, and is used only if it is ours
// as an entry of the program cache must be (host/private_files.h), and its checksum is right.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program/executable.h"

namespace rk3588 {

// The board, driver and version that results hold for: pairs of name and value, in order.
using BoardKey = std::vector<std::pair<std::string, std::string>>;

class Record {
 public:
  // `folder` is made if it is missing; "": nothing is kept. Reads what is there; a file that must
  // not be used counts as none, and problem() says why.
  Record(std::string folder, BoardKey key);

  const std::string& path() const { return path_; }
  // Why results are not kept, or what is there is not used; "" otherwise.
  const std::string& problem() const { return problem_; }
  // Returns what is known of a name, "" where nothing is.
  std::string state(const std::string& name) const;
  const std::map<std::string, std::string>& states() const { return states_; }
  // "" forgets it. All write the file at once, and to the disk, if anything changes. A failure
  // becomes problem().
  void set(const std::string& name, const std::string& state);
  void forget(const std::string& name);
  void forget_all();
  // Reads what another process has written meanwhile.
  void read();

 private:
  void write();
  std::string text() const;

  std::string path_;
  BoardKey key_;
  std::map<std::string, std::string> states_;
  std::string problem_;
};

// Held while programs are tried, so that two processes do not take each other's for hung ones.
// Waits.
class RecordLock {
 public:
  explicit RecordLock(const std::string& record_path);
  ~RecordLock();
  RecordLock(const RecordLock&) = delete;
  RecordLock& operator=(const RecordLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Returns this user's folder: $XDG_CACHE_HOME or ~/.cache, and our name; "" if there is neither.
std::string default_cache_folder();

// States of a program: it was begun, and nobody lived to say more; the same for the second time; it
// was right on generated inputs; its first inference was right, too.
inline constexpr char kStarted[] = "started";
inline constexpr char kStartedAgain[] = "started again";
inline constexpr char kRan[] = "ran";
inline constexpr char kVerified[] = "verified";
// Its first inference was wrong, and nobody has asked why yet.
inline constexpr char kWrong[] = "wrong";
// States of a program or of a form: computes something else; does not end; did not end once.
inline constexpr char kFailed[] = "failed";
inline constexpr char kHung[] = "hung";
inline constexpr char kSuspected[] = "suspected";
// State of a form, with its settings behind it, or of a relation: programs made for this board may
// have it though nobody else has run it.
inline constexpr char kProved[] = "proved";

// Whether a state begins with one of these words.
inline bool is_state(const std::string& state, const char* word) {
  return state.rfind(word, 0) == 0;
}

class BoardEvidence {
 public:
  BoardEvidence(const std::string& folder, BoardKey key) : record(folder, std::move(key)) {}

  // Returns the one of this process; a forked child has its own.
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
