// Whether somebody else may have written files that this process trusts: entries of the program
// cache, what a board's features have shown.
#pragma once

#include <string>

namespace rk3588 {

// Returns the folder without links, which nobody else can turn elsewhere afterwards. Throws
// std::runtime_error unless only this user and root can put, replace or rename files there.
std::string private_folder(const std::string& folder);

// The same unless only they can have written the file, which is open as `descriptor`.
void check_private_file(int descriptor, const std::string& path);

}  // namespace rk3588
