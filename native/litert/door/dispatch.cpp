// libLiteRtDispatch_rk3588.so: the two entries that LiteRT looks up, LiteRtDispatchGetApi of
// ai-edge-litert 2.3.0 and LiteRtDispatchQueryInterface of later ones.
#include "behind.h"
#include "litert/litert_abi.h"

using namespace rk3588::litert;

RK3588_LITERT_ENTRY Status LiteRtDispatchGetApi(DispatchApi* api) {
  auto* fill = behind<decltype(rk3588_litert_dispatch_api)>("rk3588_litert_dispatch_api");
  return fill == nullptr ? kRuntimeFailure : fill(api);
}

RK3588_LITERT_ENTRY Status LiteRtDispatchQueryInterface(InterfaceId interface, ApiVersion version,
                                                        const void** result) {
  // The other interfaces are optional; runtimes look at the version in the header of this one.
  if (interface != kBasicInterface || version.major < kAbiMajor) return kUnsupported;
  if (result == nullptr) return kInvalidArgument;
  auto* give =
      behind<decltype(rk3588_litert_dispatch_interface)>("rk3588_litert_dispatch_interface");
  if (give == nullptr) return kRuntimeFailure;
  *result = give();
  return kOk;
}
