// What the doors (door/) look up in the delegate's library.
#pragma once

#include "litert_abi.h"

#define RK3588_LITERT_ENTRY extern "C" __attribute__((visibility("default")))

// Fills in what ai-edge-litert 2.3.0 gives.
RK3588_LITERT_ENTRY rk3588::litert::Status rk3588_litert_dispatch_api(
    rk3588::litert::DispatchApi* api);
RK3588_LITERT_ENTRY const rk3588::litert::DispatchInterface* rk3588_litert_dispatch_interface();
RK3588_LITERT_ENTRY const rk3588::litert::CompilerInterface* rk3588_litert_compiler_interface();
