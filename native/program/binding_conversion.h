// A tensor at the partition's edge, between the host's memory and the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/host_values.h"
#include "program/layout.h"
#include "program/program.h"

namespace rk3588 {

ImageLayout image_layout(const Binding& binding, const Box& box);

// Bytes that the conversions of `binding` need for values of the device in the host's order. What
// lies side by side on the host is converted in blocks that a cache holds, all else whole.
size_t bytes_between(const Binding& binding);

// `host`: the tensor, dense. `device`: the memory of the binding's boxes. `between`: at least
// bytes_between() bytes, of any content.
void to_device(const Binding& binding, QuantizeRule rule, const uint8_t* host, uint8_t* between,
               uint8_t* device);
void from_device(const Binding& binding, const uint8_t* device, uint8_t* between, uint8_t* host);

// The addresses of commands that change with the memory of the edges and of the commands
// themselves. Empty: neither input nor output is one tensor in the host's own layout.
std::vector<Reloc> edge_relocs(const Program& program);

}  // namespace rk3588
