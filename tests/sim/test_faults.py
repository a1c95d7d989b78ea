"""Every class of fault has a program that provokes it; messages name task, layer and register."""

from collections.abc import Callable

import numpy as np
import pytest

from delegate import _native
from delegate.errors import SimulatorFault, UnsupportedByDevice
from tests.sim import stream as s
from tests.sim.programs import (
    Conv,
    Elementwise,
    conv_registers,
    elementwise_registers,
    random_elementwise,
    random_tensors,
)

Change = Callable[[s.Registers], None]


def fault_of(run: Callable[[], None]) -> SimulatorFault:
    with pytest.raises(SimulatorFault) as caught:
        run()
    fault = caught.value
    text = str(fault)
    assert "\n" not in text
    assert text.startswith(f"{fault.kind} in task {fault.task}")
    assert fault.register in text
    assert isinstance(fault, UnsupportedByDevice) == (fault.kind == "UnsupportedFeature")
    return fault


def conv_memory(t: Conv) -> tuple[s.Memory, s.Registers]:
    memory = s.Memory()
    return memory, conv_registers(t, memory, random_tensors(np.random.default_rng(0), t))


def set_(offset: int, value: int) -> Change:
    return lambda r: r.__setitem__(offset, value)


def or_(offset: int, value: int) -> Change:
    return lambda r: r.__setitem__(offset, r.get(offset, 0) | value)


def add_(offset: int, value: int) -> Change:
    return lambda r: r.__setitem__(offset, r[offset] + value & 0xFFFFFFFF)


def drop(offset: int) -> Change:
    return lambda r: r.pop(offset) and None


def multiplier_from_memory(r: s.Registers) -> None:
    r |= {s.BS_CFG: 0x20140, s.BS_MUL_CFG: 1}


# (what is changed in a correct convolution, the fault's kind, its register)
CONV_FAULTS = [
    # Words and registers
    (set_(0x1004, 0xE), "ForbiddenRegister", "CNA.S_POINTER"),
    (set_(0x3004, 0xE), "ForbiddenRegister", "CORE.S_POINTER"),
    (set_(0x1000, 0), "ForbiddenRegister", "CNA.S_STATUS"),
    (set_(0x1008, 1), "ForbiddenRegister", "CNA.OPERATION_ENABLE"),
    (set_(0x1018, 0), "UnknownRegister", "CNA.0x1018"),
    (set_(0x4200, 0), "UnknownRegister", "DPU.0x4200"),
    (or_(s.DATA_SIZE0, 1 << 31), "ReservedBits", "CNA.DATA_SIZE0"),
    (set_(s.DPU_S_POINTER, 0x1), "InvalidValue", "DPU.S_POINTER"),
    (drop(s.WEIGHT_SIZE0), "NeverWrittenRegister", "CNA.WEIGHT_SIZE0"),
    (drop(s.OUT_SHIFT), "NeverWrittenRegister", "DPU.OUT_CVT_SHIFT"),
    (drop(s.RDMA_WIDTH), "NeverWrittenRegister", "DPU_RDMA.RDMA_DATA_CUBE_WIDTH"),
    # Features that are not modelled
    (or_(s.CONV_CON3, 1 << 11), "InvalidValue", "CNA.CONV_CON3.DECONV_Y_STRIDE"),
    (or_(s.CONV_CON1, 0xA << 12), "InvalidValue", "CNA.CONV_CON1.NONALIGN_DMA"),
    (or_(s.CONV_CON1, 0x10), "UnsupportedFeature", "CNA.CONV_CON1.IN_PRECISION"),
    (or_(s.CONV_CON1, 0x20), "UnsupportedFeature", "CNA.CONV_CON1.PROC_PRECISION"),
    (or_(s.CONV_CON1, 0x120), "InconsistentSizes", "CNA.WEIGHT_SIZE1.WEIGHT_BYTES_PER_KERNEL"),
    (or_(s.CONV_CON2, 1 << 28), "UnsupportedFeature", "CNA.CONV_CON2.CORE_SPLIT"),
    (set_(s.CVT_CON0, 0), "UnsupportedFeature", "CNA.CVT_CON0.CVT_BYPASS"),
    (set_(0x1100, 1), "UnsupportedFeature", "CNA.DCOMP_CTRL.DECOMP_CONTROL"),
    (set_(0x114C, 1), "UnsupportedFeature", "CNA.DCOMP_AMOUNT3"),
    (or_(s.CORE_MISC_CFG, 0x200), "InconsistentSizes", "CORE.MISC_CFG.PROC_PRECISION"),
    (set_(s.DATA_FORMAT, 0x60000000), "UnsupportedFeature", "DPU.DATA_FORMAT.OUT_PRECISION"),
    (set_(s.DATA_FORMAT, 0x08000000), "UnsupportedFeature", "DPU.DATA_FORMAT.IN_PRECISION"),
    (set_(s.DATA_FORMAT, 0x00000003), "UnsupportedFeature", "DPU.DATA_FORMAT.PROC_PRECISION"),
    (set_(s.EW_CFG, 0x302), "NeverWrittenRegister", "DPU.LUT_CFG"),
    (or_(s.OUT_SCALE, 1 << 16), "UnsupportedFeature", "DPU.OUT_CVT_SCALE.FP32TOFP16_EN"),
    (set_(s.CUBE_NOTCH, 3 << 16), "UnsupportedFeature", "DPU.DATA_CUBE_NOTCH_ADDR.NOTCH_ADDR_1"),
    (set_(s.BRDMA_CFG, 5 << 1), "UnsupportedFeature", "DPU_RDMA.RDMA_BRDMA_CFG.BRDMA_DATA_USE"),
    (set_(s.NRDMA_CFG, 5 << 1), "UnsupportedFeature", "DPU_RDMA.RDMA_NRDMA_CFG.NRDMA_DATA_USE"),
    # Values that no known program has
    (set_(s.CONV_CON1, 1), "InvalidValue", "CNA.CONV_CON1.CONV_MODE"),
    (set_(s.CONV_CON3, 1 << 3), "InvalidValue", "CNA.CONV_CON3.CONV_X_STRIDE"),
    (set_(s.DATA_SIZE0, 5 << 16), "InvalidValue", "CNA.DATA_SIZE0.DATAIN_HEIGHT"),
    (set_(s.DMA_CON0, 0xF0005), "InvalidValue", "CNA.DMA_CON0.DATA_BURST_LEN"),
    (set_(s.CBUF_CON0, 0xB0), "InvalidValue", "CNA.CBUF_CON0.DATA_BANK"),
    (set_(s.FEATURE_MODE_CFG, 0x1E5), "InvalidValue", "DPU.FEATURE_MODE_CFG.FLYING_MODE"),
    (
        set_(s.RDMA_FEATURE_MODE, 0x7800),
        "InvalidValue",
        "DPU_RDMA.RDMA_FEATURE_MODE_CFG.MRDMA_DISABLE",
    ),
    (set_(s.BS_CFG, 0x30150), "InvalidValue", "DPU.BS_CFG.BS_ALU_ALGO"),
    (set_(s.OUT_SHIFT, 64), "InvalidValue", "DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT"),
    # Sizes that disagree
    (set_(s.WEIGHT_SIZE0, 100), "InconsistentSizes", "CNA.WEIGHT_SIZE0.WEIGHT_BYTES"),
    (add_(s.WEIGHT_SIZE1, 16), "InconsistentSizes", "CNA.WEIGHT_SIZE1.WEIGHT_BYTES_PER_KERNEL"),
    (set_(s.FC_DATA_SIZE0, 5 << 16 | 6), "InconsistentSizes", "CNA.FC_DATA_SIZE0.DMA_HEIGHT"),
    (set_(s.FC_DATA_SIZE1, 32), "InconsistentSizes", "CNA.FC_DATA_SIZE1.DMA_CHANNEL"),
    (set_(s.DATA_SIZE1, 16 << 16 | 16), "InconsistentSizes", "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL"),
    (set_(s.DATA_SIZE3, 34), "InconsistentSizes", "CNA.DATA_SIZE3.DATAOUT_ATOMICS"),
    (set_(s.DATA_SIZE3, 5 * 9), "InconsistentSizes", "CNA.DATA_SIZE3.DATAOUT_ATOMICS"),
    (set_(s.DATAOUT_SIZE_0, 6 << 16 | 3), "InconsistentSizes", "CORE.DATAOUT_SIZE_0"),
    (set_(s.DATAOUT_SIZE_1, 63), "InconsistentSizes", "CORE.DATAOUT_SIZE_1"),
    (set_(s.CUBE_WIDTH, 5), "InconsistentSizes", "DPU.WDMA_SIZE_1"),
    (set_(s.CUBE_CHANNEL, 7 << 16 | 15), "InconsistentSizes", "DPU.DATA_CUBE_CHANNEL.CHANNEL"),
    (set_(s.CUBE_CHANNEL, 40 << 16 | 31), "InconsistentSizes", "DPU.DATA_CUBE_CHANNEL.ORIG"),
    (set_(s.WDMA_SIZE_0, 63), "InconsistentSizes", "DPU.WDMA_SIZE_0.CHANNEL_WDMA"),
    (set_(s.BS_OW_CFG, 0x364), "InconsistentSizes", "DPU.BS_OW_CFG.SIZE_E_1"),
    (set_(s.RDMA_HEIGHT, 5), "InconsistentSizes", "DPU_RDMA.RDMA_DATA_CUBE_HEIGHT.HEIGHT"),
    (set_(s.RDMA_CHANNEL, 15), "InconsistentSizes", "DPU_RDMA.RDMA_DATA_CUBE_CHANNEL.CHANNEL"),
    (set_(s.CORE_MISC_CFG, 3), "InconsistentSizes", "CORE.MISC_CFG.DW_EN"),
    (set_(s.DST_SURF_STRIDE, 16), "InconsistentSizes", "DPU.DST_SURF_STRIDE"),
    (set_(s.DMA_CON1, 4), "InconsistentSizes", "CNA.DMA_CON1.LINE_STRIDE"),
    # CBUF
    (set_(s.CBUF_CON0, 0x67), "CbufOverrun", "CNA.CBUF_CON0"),
    (set_(s.CBUF_CON1, 1), "CbufOverrun", "CNA.CBUF_CON1.DATA_ENTRIES"),
    (set_(s.CBUF_CON1, 2049), "CbufOverrun", "CNA.CBUF_CON1.DATA_ENTRIES"),
    (set_(s.CBUF_CON1, 1000), "CbufOverrun", "CNA.CBUF_CON0.DATA_BANK"),
    (or_(s.CBUF_CON0, 1 << 13), "ReuseMismatch", "CNA.CBUF_CON0.WEIGHT_REUSE"),
    (or_(s.CBUF_CON0, 1 << 12), "ReuseMismatch", "CNA.CBUF_CON0.DATA_REUSE"),
    # Memory
    (set_(s.FEATURE_DATA_ADDR, 0x1000), "UnmappedAccess", "CNA.FEATURE_DATA_ADDR"),
    (add_(s.FEATURE_DATA_ADDR, 16), "UnmappedAccess", "CNA.FEATURE_DATA_ADDR"),
    (add_(s.DCOMP_ADDR0, 4096 * 16), "UnmappedAccess", "CNA.DCOMP_ADDR0"),
    (add_(s.DST_BASE_ADDR, 16), "UnmappedAccess", "DPU.DST_BASE_ADDR"),
    (set_(s.DST_BASE_ADDR, 0xFFFFFFF0), "UnmappedAccess", "DPU.DST_BASE_ADDR"),
    (set_(s.BS_BASE, 0x20), "UnmappedAccess", "DPU_RDMA.RDMA_BS_BASE_ADDR"),
    (add_(s.FEATURE_DATA_ADDR, 1), "MisalignedAddress", "CNA.FEATURE_DATA_ADDR"),
    (add_(s.DST_BASE_ADDR, 8), "MisalignedAddress", "DPU.DST_BASE_ADDR"),
    (set_(s.DMA_CON1, 21), "InconsistentSizes", "CNA.DMA_CON1.LINE_STRIDE"),
    # Operands
    (set_(s.BRDMA_CFG, 0), "OperandNotFetched", "DPU.BS_CFG.BS_ALU_SRC"),
    (or_(s.BS_OW_CFG, 1), "OperandNotFetched", "DPU.BS_OW_CFG.OW_SRC"),
    (multiplier_from_memory, "OperandNotFetched", "DPU.BS_MUL_CFG.BS_MUL_SRC"),
]


@pytest.mark.parametrize(("change", "kind", "register"), CONV_FAULTS)
def test_changed_convolution_faults(change, kind, register):
    memory, registers = conv_memory(Conv())
    change(registers)
    before = memory.bytes("output").copy()
    fault = fault_of(lambda: s.run_one(memory, registers))
    assert fault.kind == kind, str(fault)
    assert fault.register.startswith(register), str(fault)
    assert (fault.task, fault.layer) == (0, "layer0")
    assert fault.unit == register.split(".")[0]
    np.testing.assert_array_equal(memory.bytes("output"), before)


def test_operand_sum_needs_qd_en():
    memory, registers = conv_memory(Conv(ow_operand=3, registers={s.CORE_MISC_CFG: 0}))
    fault = fault_of(lambda: s.run_one(memory, registers))
    assert (fault.kind, fault.register) == ("OperandNotFetched", "CORE.MISC_CFG.QD_EN")


def test_too_many_products_for_the_accumulator():
    t = Conv(c=9600, h=14, w=1, kh=14, kw=1, pad_top=0, pad_left=0, oh=1, ow=1)
    memory, registers = conv_memory(t)
    fault = fault_of(lambda: s.run_one(memory, registers))
    assert fault.kind == "AccumulatorRange"


def test_memory_operand_without_dpu_rdma():
    memory, registers = conv_memory(Conv())
    short = {k: v for k, v in registers.items() if k < 0x5000}
    fault = fault_of(lambda: s.run_one(memory, short, s.CONV_NO_RDMA))
    assert fault.kind == "OperandNotFetched"


@pytest.mark.parametrize(
    ("where", "what"), [("input", "features"), ("weights", "weights"), ("operands", "operand")]
)
def test_output_over_its_own_inputs(where, what):
    memory, registers = conv_memory(Conv(oc=64, c=64, h=9, w=9, oh=9, ow=9))
    address = next(a for name, a, _ in memory.regions if name == where)
    memory.regions = [
        (n, a, np.concatenate([b, np.zeros(4096, np.uint8)]) if n == where else b)
        for n, a, b in memory.regions
    ]
    registers[s.DST_BASE_ADDR] = address if where == "input" else address + 16
    if where == "operands":
        registers[s.DST_BASE_ADDR] = address
    registers[s.DST_SURF_STRIDE] = registers[s.DST_SURF_STRIDE]
    fault = fault_of(lambda: s.run_one(memory, registers))
    assert fault.kind in ("OutputOverlap", "UnmappedAccess")
    if where == "input":
        assert fault.kind == "OutputOverlap"
        assert what in str(fault)


def test_elementwise_output_shifted_over_its_input():
    t = Elementwise(h=8, w=8)
    memory = s.Memory()
    registers = elementwise_registers(t, memory, random_elementwise(np.random.default_rng(0), t))
    registers[s.DST_BASE_ADDR] = registers[s.RDMA_SRC_BASE] + 16
    memory.regions = [
        (n, a, np.concatenate([b, np.zeros(64, np.uint8)])) for n, a, b in memory.regions
    ]
    fault = fault_of(lambda: s.run_one(memory, registers, s.FLYING))
    assert (fault.kind, fault.register) == ("OutputOverlap", "DPU.DST_BASE_ADDR")


def test_elementwise_with_window_sum():
    t = Elementwise()
    memory = s.Memory()
    registers = elementwise_registers(t, memory, random_elementwise(np.random.default_rng(0), t))
    registers |= {s.BS_OW_CFG: 0, s.BS_OW_OP: 5}
    fault = fault_of(lambda: s.run_one(memory, registers, s.FLYING))
    assert (fault.kind, fault.register) == ("InvalidValue", "DPU.BS_OW_CFG.OD_BYPASS")


@pytest.mark.parametrize(
    ("change", "kind", "register"),
    [
        ({s.SURF_NOTCH: 0}, "InconsistentSizes", "DPU_RDMA.RDMA_EW_SURF_NOTCH"),
        ({s.ERDMA_CFG: 1}, "InvalidValue", "DPU_RDMA.RDMA_FEATURE_MODE_CFG.COMB_USE"),
        ({s.RDMA_FEATURE_MODE: 0x7D10}, "InvalidValue", "DPU_RDMA.RDMA_FEATURE_MODE_CFG.MRDMA"),
        ({s.RDMA_FEATURE_MODE: 0x7810}, "UnsupportedFeature", "DPU_RDMA.RDMA_FEATURE_MODE_CFG.COM"),
        ({s.EW_BASE: 0x40}, "UnmappedAccess", "DPU_RDMA.RDMA_EW_BASE_ADDR"),
        ({s.RDMA_SRC_BASE: 0x40}, "UnmappedAccess", "DPU_RDMA.RDMA_SRC_BASE_ADDR"),
        ({s.EW_CFG: 0x908202C0}, "InconsistentSizes", "DPU.EW_CFG.EDATA_SIZE"),
        ({s.EW_CFG: 0x900202C0}, "UnsupportedFeature", "DPU.EW_CFG.EDATA_SIZE"),
        ({s.EW_CFG: 0x904702C0}, "UnsupportedFeature", "DPU.EW_CFG.EW_ALU_ALGO"),
    ],
)
def test_changed_fused_operand_faults(change, kind, register):
    memory, registers = conv_memory(Conv(fused=True, oc=64))
    fault = fault_of(lambda: s.run_one(memory, registers | change))
    assert fault.kind == kind, str(fault)
    assert fault.register.startswith(register), str(fault)


def test_memory_that_nothing_has_written():
    memory, registers = conv_memory(Conv())
    program = s.Program()
    program.add(registers)
    tasks = program.place(memory)
    regions = [(n, a, b, 0 if n == "input" else b.size) for n, a, b in memory.regions]
    fault = fault_of(lambda: _native.simulate(regions, [tasks]))
    assert (fault.kind, fault.register) == ("NeverWrittenMemory", "CNA.FEATURE_DATA_ADDR")
    regions = [(n, a, b, 0 if n == "output" else b.size) for n, a, b in memory.regions]
    _native.simulate(regions, [tasks])


def test_memory_that_an_earlier_task_has_written():
    rng = np.random.default_rng(0)
    memory, program = s.Memory(), s.Program()
    first, second = Conv(oc=32), Conv(c=32, oc=32)
    registers = conv_registers(first, memory, random_tensors(rng, first), "0")
    program.add(registers)
    following = conv_registers(second, memory, random_tensors(rng, second), "1")
    following[s.FEATURE_DATA_ADDR] = registers[s.DST_BASE_ADDR]
    program.add(following)
    tasks = program.place(memory)
    regions = [(n, a, b, 0 if n.startswith("output") else b.size) for n, a, b in memory.regions]
    _native.simulate(regions, [tasks])
    fault = fault_of(lambda: _native.simulate(regions, [[tasks[1]]]))
    assert fault.kind == "NeverWrittenMemory"


def test_regions_that_overlap_or_leave_the_address_space():
    image = np.zeros(64, np.uint8)
    for regions in (
        [("a", 0x1000, image), ("b", 0x1020, image)],
        [("a", (1 << 32) - 32, image)],
        [("a", 1 << 40, image)],
    ):
        assert fault_of(lambda r=regions: _native.simulate(r, [])).kind == "UnmappedAccess"


def test_arguments_are_checked():
    image = np.zeros(64, np.uint8)
    frozen = image.copy()
    frozen.flags.writeable = False
    for region in (
        ("a", 0),
        ("a", 0, image.astype(np.int8)),
        ("a", 0, image[::2]),
        ("a", 0, frozen),
    ):
        with pytest.raises((ValueError, TypeError)):
            _native.simulate([region], [])
    with pytest.raises(ValueError, match="portable"):
        _native.simulate([], [], isa="mmx")
