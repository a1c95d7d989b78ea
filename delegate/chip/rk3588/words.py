"""Says in words what a form asks of the blocks and stages of RK3588.

In: a form. Out: a sentence for a person. Settings that say only how the hardware fetches and
stores the same values (bursts, arbitration) have no words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from delegate.chip.chip import Form
from delegate.chip.register_model import AluAlgorithm, DpuPrecision, PixelInput
from delegate.chip.rk3588.registers import REGISTERS

KINDS: Final = {
    "conv": "dense convolution",
    "dw": "depthwise convolution",
    "deconv": "dense convolution with zeros between input pixels",
    "dedw": "depthwise convolution with zeros between input pixels",
    "fly": "DPU alone",
    "ppu": "pooling unit",
}
_FLOAT: Final = "_fp"

_VERBS: Final = {
    AluAlgorithm.MAX: "takes the maximum with",
    AluAlgorithm.MIN: "takes the minimum with",
    AluAlgorithm.ADD: "adds",
    AluAlgorithm.DIV: "divides by",
    AluAlgorithm.MINUS: "subtracts",
    AluAlgorithm.ABS: "takes the magnitude of",
    AluAlgorithm.NEG: "negates",
    AluAlgorithm.FLOOR: "rounds down",
    AluAlgorithm.CEIL: "rounds up",
}
_WRITTEN: Final = {
    DpuPrecision.INT8: "int8",
    DpuPrecision.INT16: "int16",
    DpuPrecision.FP16: "fp16",
    DpuPrecision.INT32: "int32",
    DpuPrecision.FP32: "fp32",
}
_SUMS = "7"  # SIZE_E of tasks that write 32 bits
_FLAGS: Final = (
    ("dil", "dilated kernel"),
    ("CLIP", "the array's sums are shifted right"),
    ("NOTCH", "gaps between rows of the result"),
    ("SRC_LINE_NOTCH", "gaps between rows of the source"),
    ("SURF_NOTCH", "gaps between surfaces of the source"),
    ("EW_LINE_NOTCH", "gaps between rows of EW's operand"),
    ("EW_SURF_NOTCH", "gaps between surfaces of EW's operand"),
    ("SRC_DMA", "every pixel of the source is repeated"),
    ("PPU_NOTCH", "gaps between rows of the result"),
)


def kind_in_words(kind: str) -> str:
    """Return the kind of a task and its element type: ``dense convolution, int8``."""
    return f"{KINDS[kind.removesuffix(_FLOAT)]}, {'fp16' if kind.endswith(_FLOAT) else 'int8'}"


def form_in_words(form: Form) -> str:
    """Return the stages of ``form``, in the order in which values pass them, then what else
    differs.
    """
    if form.kind.startswith("ppu"):
        return "; ".join(_pooling(form))
    found = [*_input(form), *_x_stage(form, "BS"), *_x_stage(form, "BN"), *_ew(form)]
    found += [*_output(form), *_flags(form)]
    return "; ".join(found)


def _value(form: Form, setting: str) -> int:
    return int(form.settings.get(setting, "0").removesuffix("neg"), 0)


def _bits(form: Form, setting: str, name: str, field: str) -> int:
    """Return the number in a field of the register that ``setting`` holds as a whole."""
    place = REGISTERS.by_name[name].field(field)
    return (_value(form, setting) & place.mask) >> place.lo


def _input(form: Form) -> Iterator[str]:
    if "CONV_CON1" not in form.settings:
        return
    packed = _bits(form, "CONV_CON1", "CNA.CONV_CON1", "ARGB_IN")
    if packed:
        channels = packed - PixelInput.CHANNELS_1 + 1
        yield f"packed pixels of {channels} channel{'s' if channels > 1 else ''}"
    if _bits(form, "CONV_CON1", "CNA.CONV_CON1", "GROUP_LINE_OFF"):
        yield "rows are fetched one by one"


def _x_stage(form: Form, stage: str) -> Iterator[str]:
    """BS or BN, which have the same switches."""
    setting, name = f"{stage}_CFG", f"DPU.{stage}_CFG"
    steps = []

    def on(field: str) -> int:
        return _bits(form, setting, name, f"{stage}_{field}")

    is_off = on("BYPASS")
    if not is_off and not on("ALU_BYPASS"):
        verb = _VERBS[AluAlgorithm(on("ALU_ALGO"))]
        steps.append(f"{verb} {_operand(on('ALU_SRC'))}")
    if not is_off and not on("MUL_BYPASS"):
        memory = _value(form, f"{stage}_MUL.src") & 1
        negative = " where the value is negative" if on("MUL_PRELU") else ""
        steps.append(f"multiplies by {_operand(memory)}{negative}")
    sums = "BS_OW" in form.settings and not _bits(form, "BS_OW", "DPU.BS_OW_CFG", "OD_BYPASS")
    if stage == "BS" and not is_off and sums:
        factor = _operand(_bits(form, "BS_OW", "DPU.BS_OW_CFG", "OW_SRC"))
        steps.append(f"adds the sum of inputs times {factor}")
    if not is_off and not on("RELU_BYPASS"):
        steps.append("clamps below and above" if on("RELUX_EN") else "clamps at 0")
    if steps:
        yield f"{stage} {', '.join(steps)}"


def _operand(from_memory: int) -> str:
    return "a number per channel" if from_memory else "one number"


def _ew(form: Form) -> Iterator[str]:
    def on(field: str) -> int:
        return _bits(form, "EW_CFG", "DPU.EW_CFG", field)

    if on("EW_BYPASS"):
        return
    if not on("EW_OP_BYPASS"):
        is_product = on("EW_OP_TYPE")
        verb = "multiplies by" if is_product else _VERBS[AluAlgorithm(on("EW_ALU_ALGO"))]
        steps = [f"{verb} {_second(form)}"]
        if not on("EW_OP_CVT_BYPASS"):
            steps.append("scaled first")
        if form.settings.get("EW_TRUNC"):
            steps.append("shifts right")
        if not on("EW_RELU_BYPASS"):
            steps.append("clamps at 0")
        if on("EW_RELUX_EN"):
            steps.append("clamps above")
        yield f"EW {', '.join(steps)}"
    elif not on("EW_RELU_BYPASS"):
        yield "EW clamps at 0"
    if form.settings.get("LUT_used"):
        slopes = " with slopes beyond their ends" if form.settings.get("LUT_SLOPES") else ""
        yield f"tables give the result{slopes}"


def _second(form: Form) -> str:
    if not _bits(form, "EW_CFG", "DPU.EW_CFG", "EW_OP_SRC"):
        return "one number"
    per_pixel = _bits(form, "EW_CFG", "DPU.EW_CFG", "EW_DATA_MODE") and _bits(
        form, "ERDMA", "DPU_RDMA.RDMA_ERDMA_CFG", "ERDMA_DATA_MODE"
    )
    return "a map" if per_pixel else "a number per channel"


def _output(form: Form) -> Iterator[str]:
    written = _bits(form, "DATA_FORMAT.prec", "DPU.DATA_FORMAT", "OUT_PRECISION")
    text = f"OUT_CVT scales and writes {_WRITTEN.get(DpuPrecision(written), str(written))}"
    if form.settings.get("SIZE_E") == _SUMS and written == DpuPrecision.INT32:
        text = "the int32 sums are written"
    if form.kind.endswith(_FLOAT):
        text = f"{_WRITTEN.get(DpuPrecision(written), str(written))} is written"
    flags = _value(form, "OUT_SHIFT.flags")
    if flags & REGISTERS.by_name["DPU.OUT_CVT_SHIFT"].field("CVT_ROUND").mask:
        text += ", ties away from zero"
    if flags & REGISTERS.by_name["DPU.OUT_CVT_SHIFT"].field("MINUS_EXP").mask:
        text += ", the exponent moved"
    yield text


def _flags(form: Form) -> Iterator[str]:
    if _bits(form, "CBUF_CON0.flags", "CNA.CBUF_CON0", "WEIGHT_REUSE"):
        yield "weights of the task before are kept"
    if _bits(form, "CBUF_CON0.flags", "CNA.CBUF_CON0", "DATA_REUSE"):
        yield "rows of the task before are kept"
    yield from (text for name, text in _FLAGS if name in form.settings)


def _pooling(form: Form) -> Iterator[str]:
    def size(field: str) -> int:
        return _bits(form, "PPU_K", "PPU.POOLING_KERNEL_CFG", field) + 1

    method = _bits(form, "PPU_MODE", "PPU.OPERATION_MODE_CFG", "POOLING_METHOD")
    words = ("average", "maximum", "minimum")[method]
    sides = f"{size('KERNEL_HEIGHT')} x {size('KERNEL_WIDTH')}"
    strides = f"{size('KERNEL_STRIDE_HEIGHT')} x {size('KERNEL_STRIDE_WIDTH')}"
    yield f"{words} of {sides} pixels, strides {strides}"
    yield from (text for name, text in _FLAGS if name in form.settings)
