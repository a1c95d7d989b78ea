// Whether somebody else may have written files that this process trusts: entries of the program
// cache, what a board's features have shown.
#pragma once

#include <sys/types.h>

#include <string>

namespace rk3588 {

// Returns the folder without links, which nobody else can turn elsewhere afterwards. Throws
// std::runtime_error unless only this user and root can put, replace or rename files there.
std::string private_folder(const std::string& folder);

// The same unless only they can have written the file, which is open as `descriptor`.
void check_private_file(int descriptor, const std::string& path);

// Replaces the file whole, so that readers see no half of it, and never writes what somebody else
// has put there. `mode`: of the new file. `to_disk`: it is there also if the machine ends right
// afterwards. Throws std::runtime_error: the path and why.
void replace_file(const std::string& path, const std::string& text, mode_t mode, bool to_disk);

}  // namespace rk3588
