// What a board's features have shown so far: a file per board, driver, kernel and version of ours.
//
// The file is JSON of one form, a line per feature, and is used only if it is ours as an entry of
// the program cache must be (host/private_files.h), and its checksum is right.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rk3588 {

// Of one feature: a word, for "failed" and "hung" with what happened behind a colon.
inline constexpr char kProved[] = "proved";
inline constexpr char kStarted[] = "started";  // and nobody lived to say more
inline constexpr char kFailed[] = "failed";
inline constexpr char kHung[] = "hung";

// What a result holds for: pairs of name and value, in order.
using BoardKey = std::vector<std::pair<std::string, std::string>>;

class Record {
 public:
  // `folder` is made if it is missing; "": nothing is kept. Reads what is there; a file that must
  // not be used counts as none, and problem() says why.
  Record(std::string folder, BoardKey key);

  const std::string& path() const { return path_; }
  // Why results are not kept, or what is there is not used; "" otherwise.
  const std::string& problem() const { return problem_; }
  // "" for a feature that nobody tried.
  std::string state(const std::string& feature) const;
  // Writes the file at once, and to the disk. A failure becomes problem().
  void set(const std::string& feature, const std::string& state);
  void forget(const std::string& feature);
  // What another process has written meanwhile.
  void read();

 private:
  void write();
  std::string text() const;

  std::string path_;
  BoardKey key_;
  std::map<std::string, std::string> states_;
  std::string problem_;
};

// Held while proofs run, so that two processes do not take each other's for hung ones. Waits.
class RecordLock {
 public:
  explicit RecordLock(const std::string& record_path);
  ~RecordLock();
  RecordLock(const RecordLock&) = delete;
  RecordLock& operator=(const RecordLock&) = delete;

 private:
  int descriptor_ = -1;
};

// Of this user: $XDG_CACHE_HOME or ~/.cache, and our name; "" if there is neither.
std::string default_cache_folder();

}  // namespace rk3588
