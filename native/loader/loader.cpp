// The library that hosts load by path: no Python symbol, no TensorFlow Lite symbol.
#include "delegate_object.h"
#include "tflite_abi.h"

extern "C" {

// Python passes a C int for the number of options: the upper half of the register is undefined.
__attribute__((visibility("default"))) rk3588::tflite::Delegate* tflite_plugin_create_delegate(
    const char* const*, const char* const*, size_t, rk3588::tflite::ReportError report_error) {
  return rk3588::refuse_delegate("this process runs no Python, which compiles the model",
                                 report_error);
}

__attribute__((visibility("default"))) void tflite_plugin_destroy_delegate(
    rk3588::tflite::Delegate* delegate) {
  rk3588::destroy_delegate(delegate);
}

}  // extern "C"
