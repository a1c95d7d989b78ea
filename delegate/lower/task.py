"""The tasks that lowering gives to ``npu``: tasks as resolved integers, without addresses or
register bits.

One task is one launch of the program controller. All sizes are bytes, pixels, rows or channels as
the field names say; counts are true counts (``npu`` writes "minus one" where a register wants it).
Memory is named by ``Ref(buffer, byte offset)``; addresses exist only after a device allocated the
buffers.

Feature maps are NC1HWC2 with C2 = 16 bytes: the element (c, h, w) of an int8 map lies at
``(c // 16) * surface_stride_bytes + h * line_stride_bytes + w * 16 + c % 16``.
uint8 tensors are stored as int8 (value - 128) on the device.

Tasks of ``Element.FP16`` compute in floating point: channels are then elements of two bytes, eight
to a surface; summands and clamps of BS and BN hold the bits of an fp32, their multipliers those of
an fp16 (from memory likewise), and nothing is shifted or scaled.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, NamedTuple

from delegate.chip.chip import Pair as Pair
from delegate.chip.chip import TaskKind as TaskKind
from delegate.chip.element import ATOM_BYTES, Element
from delegate.lower.numerics.pipeline import EwOperation, OutConvert

_PLAIN_OUTPUT: Final = OutConvert()


class BufferId(enum.IntEnum):
    """The buffers of a program; one of each at most. The number is its index in a serialised
    Program.
    """

    REGCMD = 0
    CONSTANTS = 1
    SCRATCH = 2
    INPUT = 3
    OUTPUT = 4


@dataclass(frozen=True, slots=True)
class Ref:
    """A place in a buffer: byte ``offset`` from its start."""

    buffer: BufferId
    offset: int

    def moved(self, offset_bytes: int) -> Ref:
        """The place ``offset_bytes`` further on."""
        return Ref(self.buffer, self.offset + offset_bytes)


class Source(enum.Enum):
    """The origin of an operand of a DPU stage."""

    OFF = "off"
    REGISTER = "register"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class FeatureInput:
    """The part of a map that the CNA fetches: ``height`` rows of ``width`` pixels of ``channels``
    (whole surfaces).

    ``source`` is the first row of the tile in surface 0. Rows and columns outside the tile that the
    kernel reaches read ``pad_value`` (int8) in every lane; bottom and right padding follow from the
    output size. ``entries_per_row``: CBUF entries of 64 bytes one row takes (programs.md section
    2). ``channels_used``: channels that weights other than zero meet; None: all that are real.
    """

    source: Ref
    height: int
    width: int
    channels: int
    channels_real: int
    line_stride_bytes: int
    surface_stride_bytes: int
    entries_per_row: int
    pad_top: int
    pad_left: int
    pad_value: int
    channels_used: int | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """Packed weights in native order. Depthwise: ``kernels`` is 1 and ``bytes_per_kernel`` is
    the total.
    """

    source: Ref
    total_bytes: int
    bytes_per_kernel: int
    kernels: int
    kh: int
    kw: int


@dataclass(frozen=True, slots=True)
class OutputCube:
    """The place and shape of the DPU's writes: ``channels`` are whole groups (32 dense, 64
    depthwise, 16 element-wise).

    ``surfaces_per_group`` is 2 (dense), 4 (depthwise), 1 (element-wise). Lanes from
    ``channels_real`` on are written too, with unspecified values; the target must have room for
    them. Element-wise tasks may write such lanes only, for readers of whole groups.
    ``line_stride_bytes`` None: rows follow each other without a gap.

    ``element_bytes`` 4 (dense convolutions only): int32 sums as BS gives them, not saturated to
    int8; a surface then has 4 channels and a group 8 surfaces. 2: fp16, in groups of half as many
    channels.
    """

    target: Ref
    height: int
    width: int
    channels: int
    channels_real: int
    surface_stride_bytes: int
    surfaces_per_group: int
    line_stride_bytes: int | None = None
    element_bytes: int = 1

    @property
    def surfaces(self) -> int:
        """Surfaces that are written, those of the last group included."""
        return self.channels * self.element_bytes // ATOM_BYTES

    @property
    def row_gap_bytes(self) -> int:
        """Bytes between the end of a row and the start of the next."""
        if self.line_stride_bytes is None or self.height == 1:
            return 0
        return self.line_stride_bytes - self.width * ATOM_BYTES


@dataclass(frozen=True, slots=True)
class BsStage:
    """BS: (x + alu [+ ow * sum(inputs)]) * mul >> shift, round half even, saturate int32, then
    ReLU, RELUX.

    ``alu``/``mul``/``ow`` from MEMORY come per channel from ``operands`` in the BRDMA layout
    (programs.md section 2): dense int32 when only ``alu`` is read, else blocks of 8 channels of 64
    bytes (8 int32 alu | 8 int16 ow | 8 int16 mul). ``shift`` serves values >= 0, ``shift_negative``
    values < 0. ``relux_max`` None: no upper clamp. ``scalars``: on chips that read the shifts from
    memory, where. ``operands_used``: channels whose summands matter; None: all of the result's.
    """

    alu: Source = Source.OFF
    alu_operand: int = 0
    mul: Source = Source.OFF
    mul_operand: int = 0
    shift: int = 0
    shift_negative: int = 0
    ow: Source = Source.OFF
    ow_operand: int = 0
    relu: bool = False
    relux_max: int | None = None
    operands: Ref | None = None
    scalars: Ref | None = None
    operands_used: int | None = None

    @property
    def is_in_blocks(self) -> bool:
        """Return whether summands, OW and multipliers lie in ``operands`` beside each other."""
        return Source.MEMORY in (self.mul, self.ow)

    @property
    def bytes_per_channel(self) -> int:
        """Return the bytes of a channel's ``operands``: those of a chip that has the shifts in
        memory have no OW if unused.
        """
        if not self.is_in_blocks:
            return 4
        return 8 if self.scalars is None or self.ow is Source.MEMORY else 6


@dataclass(frozen=True, slots=True)
class BnStage:
    """BN: (x * mul + alu) >> shift, round half even, saturate int32, then ReLU, RELUX.

    ``alu_operand`` is in units of the product; None: no addition. ``prelu``: values from 0 on are
    not multiplied. ``mul`` REGISTER: ``mul_operand``; MEMORY: int16 per channel, dense, at
    ``operands``, read by NRDMA (NRDMA_CFG DATA_USE = 4: only the MUL operand). ``shift`` serves
    sums >= 0, ``shift_negative`` sums < 0 (without a multiplier neither acts). Everything off: the
    block is bypassed (BN_CFG 0x53).
    """

    alu_operand: int | None = None
    mul: Source = Source.OFF
    mul_operand: int = 0
    shift: int = 0
    shift_negative: int = 0
    relu: bool = False
    relux_max: int | None = None
    operands: Ref | None = None
    prelu: bool = False


@dataclass(frozen=True, slots=True)
class EwStage:
    """EW: x and ((e + offset) * scale >> shift), round half even, added, multiplied or compared;
    then ReLU, and RELUX if ``relux_max`` is given.

    ``operand``: int8 feature map read per pixel by the DPU_RDMA, at the tile's first row of surface
    0, with ``surface_stride_bytes`` between surfaces and, in tasks from memory,
    ``line_stride_bytes`` between rows (None: no gap). In a convolution the even surfaces are read
    by MRDMA and the odd ones by ERDMA (COMB_USE 5). ``per_channel``: ``operand`` holds one integer
    of ``operand_bytes`` (1 or 2) per channel, dense, the same for every pixel. ``truncate``: how
    far a product is shifted, round half even, before it saturates to int32. MAX and MIN convert
    nothing. ``operand`` None: the constant ``register_operand`` is added instead
    (EW_OP_VALUE_0..7), without conversion.
    """

    operand: Ref | None = None
    per_channel: bool = False
    operand_bytes: int = 1
    operation: EwOperation = EwOperation.ADD
    truncate: int = 0
    surface_stride_bytes: int = 0
    line_stride_bytes: int | None = None
    offset: int = 0
    scale: int = 1
    shift: int = 0
    register_operand: int = 0
    relu: bool = False
    relux_max: int | None = None


CURVE_ENTRIES = 1025
"""The entries of both tables, which share the middle one."""


def is_curve(function: bytes) -> bool:
    """Return whether ``function`` is the content of the tables, see ``TableUse``."""
    return len(function) == CURVE_ENTRIES * Element.INT16.bytes


@dataclass(frozen=True, slots=True)
class TableUse:
    """A function, looked up behind BN: ``functions[slot]`` are its results, as int8. All
    ``functions`` lie in the DPU's tables at a time, one behind the other.

    BN makes the place in all of the tables; the results are those of -128 to 127.

    Behind convolutions and in fp16 there is one function, a curve, which takes all of the tables:
    1,025 int16, 32 units apart, the middle one where BN gives 0, with what is between them
    interpolated.

    ``is_loaded_here``: the task itself loads the tables; else a task before it does.
    """

    functions: tuple[bytes, ...]
    slot: int
    is_loaded_here: bool = False

    @property
    def is_curve(self) -> bool:
        return is_curve(self.functions[self.slot])

    @property
    def start(self) -> int:
        """The place of the function's first result in the tables."""
        return sum(len(function) for function in self.functions[: self.slot])


class Stages(NamedTuple):
    """The DPU's work on a value, in this order, a ``table`` between BN and EW: fields of a task."""

    bs: BsStage = BsStage()
    bn: BnStage = BnStage()
    ew: EwStage | None = None
    out_convert: OutConvert = _PLAIN_OUTPUT
    table: TableUse | None = None


@dataclass(frozen=True, slots=True)
class ConvTask:
    """A tile of a dense or depthwise convolution, optionally with a table, and with a fused
    element-wise operand.

    ``data_banks`` and ``weight_banks`` split the banks of CBUF; ``weight_reuse``: the weights of
    the task before are still there.
    ``core``: which of the cores that share a layer's rows runs it; 0 where none do. ``spread``:
    from one row, or pixel, of the input to the next; those between hold the padding's value. The
    padding at the top and left is in front of them.
    """

    tile: str
    feature: FeatureInput
    weights: Weights
    data_banks: int
    weight_banks: int
    output: OutputCube
    is_depthwise: bool
    bs: BsStage = BsStage()
    bn: BnStage = BnStage()
    ew: EwStage | None = None
    out_convert: OutConvert = _PLAIN_OUTPUT
    table: TableUse | None = None
    weight_reuse: bool = False
    strides: Pair = (1, 1)
    dilations: Pair = (1, 1)
    core: int = 0
    spread: Pair = (1, 1)
    element: Element = Element.INT8


@dataclass(frozen=True, slots=True)
class ElementwiseTask:
    """DPU only ("flying"): the main operand comes from memory through MRDMA, the second through
    EW. With a ``table``, what comes out of BN is looked up. ``source_line_stride_bytes``: between
    rows of the main operand; None: no gap.
    """

    tile: str
    source: Ref
    source_surface_stride_bytes: int
    output: OutputCube
    bs: BsStage = BsStage()
    bn: BnStage = BnStage()
    ew: EwStage | None = None
    out_convert: OutConvert = _PLAIN_OUTPUT
    table: TableUse | None = None
    source_line_stride_bytes: int | None = None
    element: Element = Element.INT8

    @property
    def scales_main(self) -> bool:
        """Return whether a chip that reads BS's numbers from memory reads a multiplier: of sums,
        and of places in tables.
        """
        is_sum = self.ew is not None and self.ew.operation is EwOperation.ADD
        return is_sum or self.table is not None


@dataclass(frozen=True, slots=True)
class PoolTask:
    """Take the maxima under windows of a map in memory, by the PPU.

    ``height`` and ``width`` are the rows and columns that the windows reach, without the padding,
    which takes no part. The result has the channels of the map, whole surfaces.
    """

    tile: str
    source: Ref
    height: int
    width: int
    source_line_stride_bytes: int
    source_surface_stride_bytes: int
    output: OutputCube
    kernel: Pair
    strides: Pair
    pad_before: Pair
    pad_after: Pair
    element: Element = Element.INT8


DpuTask = ConvTask | ElementwiseTask
"""A task that the DPU ends, and that has its stages."""
Task = DpuTask | PoolTask


@dataclass(frozen=True, slots=True)
class TableLoad:
    """Puts ``functions`` into the DPU's tables, where they stay for later tasks of its job. Blocks
    start only to move data, so it copies an atom from ``source`` to ``target``.
    """

    tile: str
    functions: tuple[bytes, ...]
    source: Ref
    target: Ref
