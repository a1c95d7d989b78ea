// The counters of a process in a file, FOLDER/PID.prom in the text format of Prometheus, for who
// looks at several processes: command top, Prometheus's node exporter.
#pragma once

#include <string>

namespace rk3588 {

// The file of this process, also after a fork.
std::string stats_path(const std::string& folder);

// Replaces it whole, so that readers see no half of it; makes the folder if its parent is there.
// Throws std::runtime_error.
void write_stats_file(const std::string& folder, const std::string& text);

}  // namespace rk3588
