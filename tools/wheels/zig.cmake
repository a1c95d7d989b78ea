# zig as the C++ compiler for RK3588_TARGET (aarch64-linux-gnu.2.28: machine, system and the oldest
# C library). RK3588_ZIG: the program, of PyPI's ziglang.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RK3588_ZIG RK3588_TARGET)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${RK3588_TARGET}")
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_CXX_COMPILER "${RK3588_ZIG}" c++ -target ${RK3588_TARGET})
# zig makes debugging information, and another C++ library with it, unless told to strip.
set(CMAKE_CXX_FLAGS_INIT -s)
# This machine's own ar and strip may not know the other machine's objects.
set(CMAKE_CXX_ARCHIVE_CREATE "\"${RK3588_ZIG}\" ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "\"${RK3588_ZIG}\" ranlib <TARGET>")
set(CMAKE_STRIP "" CACHE FILEPATH "Not used: the linker strips")
