// DATA_FORMAT: the types that the DPU reads, computes with and writes.
#include "sim/dpu.h"

namespace rk3588::sim {
namespace {

namespace r = regs::dpu;

[[noreturn]] void refuse(const BlockView& v, regs::Field field, Element found,
                         const char* supported) {
  v.fault(fault::kUnsupportedFeature, field, element_name(found),
          " is not modelled by this simulator here; supported: ", supported);
}

bool is_integer(Element e) {
  return e == Element::kInt8 || e == Element::kInt16 || e == Element::kInt32;
}

}  // namespace

void decode_formats(const BlockView& v, DpuConfig* c) {
  c->in = static_cast<Element>(v.raw(r::data_format::kInPrecision));
  c->declared_in = c->in;
  c->proc = static_cast<Element>(v.raw(r::data_format::kProcPrecision));
  c->out_element = static_cast<Element>(v.raw(r::data_format::kOutPrecision));
  const Element out = c->out_element;
  if (c->proc == Element::kFp16) {
    // Numbers of fp32 from memory are what tasks before have written.
    const bool is_wide = c->is_flying && c->in == Element::kFp32;
    if (c->in != Element::kFp16 && !is_wide)
      refuse(v, r::data_format::kInPrecision, c->in,
             "fp16 with fp16 processing, fp32 in flying mode");
    if (out != Element::kFp16 && out != Element::kFp32) {
      refuse(v, r::data_format::kOutPrecision, out, "fp16 and fp32 with fp16 processing");
    }
  } else if (is_integer(c->proc)) {
    if (!is_integer(c->in))
      refuse(v, r::data_format::kInPrecision, c->in, "integers with integer processing");
    if (!c->is_flying && c->in != Element::kInt8) {
      refuse(v, r::data_format::kInPrecision, c->in, "int8 in an integer convolution");
    }
    if (!is_integer(out) && out != Element::kFp16) {
      refuse(v, r::data_format::kOutPrecision, out, "integers and fp16 with integer processing");
    }
  } else {
    refuse(v, r::data_format::kProcPrecision, c->proc, "int8, int16, int32 and fp16");
  }
  // Data declared as int16 pass 8-bit processing byte by byte (vendor programs that repeat pixels).
  if (c->is_flying && c->in == Element::kInt16 && c->proc == Element::kInt8 &&
      out == Element::kInt8) {
    c->in = Element::kInt8;
  }
  c->lanes = kAtomBytes / element_bytes(out);
}

}  // namespace rk3588::sim
