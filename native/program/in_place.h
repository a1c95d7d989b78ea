// Which programs can have an edge in memory that others share.
#pragma once

#include <vector>

#include "program/program.h"

namespace rk3588 {

// The addresses of commands that change with the memory of the edges and of the commands
// themselves. Empty: neither input nor output is one tensor in the host's own layout.
std::vector<Reloc> edge_relocs(const Program& program);

}  // namespace rk3588
