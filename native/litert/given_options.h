// The delegate's options as a LiteRT host gives them.
//
// In: a text of the model's opaque options under kOptionsIdentifier, else the file kOptionsFile in
// the environment's folder of libraries. Both have one "key=value" a line; empty lines and those
// that begin with # count for nothing. Out: pairs for read_native_options(), in which the
// environment variables count too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "litert_abi.h"
#include "loader/native_options.h"

namespace rk3588::litert {

inline constexpr char kOptionsIdentifier[] = "rk3588";
inline constexpr char kOptionsFile[] = "rk3588.options";

// "" where the host gave none. `folder`: of the libraries, as the environment names it; "" if it
// names none. Throws OptionError if the file cannot be read.
template <typename Context>
std::string given_text(const Context& context, void* options, const std::string& folder);

// What the environment says of `tag`; "": nothing.
template <typename Context>
std::string environment_text(const Context& context, void* environment_options, int32_t tag);

// Throws OptionError that names the line.
std::vector<std::pair<std::string, std::string>> split_options(const std::string& text);

// Throws OptionError.
NativeOptions parse_options(const std::string& text);

}  // namespace rk3588::litert
