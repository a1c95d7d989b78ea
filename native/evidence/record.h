// What a board has shown so far: a file per board, driver, kernel and version of ours.
//
// The file is JSON of one form, a line per program or form of tasks, and is used only if it is ours
// as an entry of the program cache must be (host/private_files.h), and its checksum is right.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace rk3588 {

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
  // What is known of a name, "" where nothing is.
  std::string state(const std::string& name) const;
  const std::map<std::string, std::string>& states() const { return states_; }
  // "" forgets it. All write the file at once, and to the disk, if anything changes. A failure
  // becomes problem().
  void set(const std::string& name, const std::string& state);
  void forget(const std::string& name);
  void forget_all();
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

// Of this user: $XDG_CACHE_HOME or ~/.cache, and our name; "" if there is neither.
std::string default_cache_folder();

}  // namespace rk3588
