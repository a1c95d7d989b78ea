"""Builds the program of a proof: tasks, their data, and the bytes that they must leave.

A program runs the tasks of its proof, a plain convolution that does without the feature, and the
tasks again with other memory. Its inputs are constants; its one output is the memory that all
tasks write, atom by atom, so that what comes back is what the hardware left there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from delegate.chip.chip import Chip
from delegate.chip.element import ATOM_BYTES, Element
from delegate.evidence.arithmetic import Whole, dense, half_away, half_even, int8, whole
from delegate.lower.constants import ConstantPool
from delegate.lower.half.weights import pack_dense_half, pack_depthwise_half, pack_half_bias
from delegate.lower.known_forms import in_known_forms
from delegate.lower.lowered import BufferSpec, Layer, LoweredPartition, TensorBinding
from delegate.lower.tables import uses_tables
from delegate.lower.task import (
    BnStage,
    BsStage,
    BufferId,
    CbufPlan,
    ConvTask,
    ElementwiseTask,
    EwStage,
    FeatureInput,
    OutConvert,
    OutputCube,
    Ref,
    Source,
    TableUse,
    Task,
    Weights,
)
from delegate.lower.tiling.geometry import entries_per_row
from delegate.lower.weights import (
    pack_bias,
    pack_dense,
    pack_depthwise,
    pack_depthwise_pairs,
    pack_operand_blocks,
    pack_shifts,
)
from delegate.npu.program import Program, build_program

AS_IT_IS = OutConvert(1, 0, 0)
_PRODUCER = "proofs"

Describe = Callable[["Bench"], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """``expected``: the program's output, whole."""

    feature: str
    program: Program
    expected: bytes


def cube(x: npt.ArrayLike, element: Element = Element.INT8) -> bytes:
    """[channels, height, width] as NC1HWC2 of ``element``; whole surfaces of channels."""
    values = np.asarray(x).astype(element.dtype)
    surfaces = values.reshape(-1, element.lanes, *values.shape[1:])
    return surfaces.transpose(0, 2, 3, 1).tobytes()


def written(before: npt.ArrayLike, out: OutConvert, element: Element) -> bytes:
    """The cube of what reaches OUT_CVT, which converts to int8 alone; other types stay."""
    if element is Element.INT8:
        rounded = half_away if out.ties_away else half_even
        before = int8(rounded(whole(before) * out.scale, out.shift) + out.offset)
    return cube(before, element)


@dataclass
class Bench:
    """Collects tasks and what they must write."""

    chip: Chip
    constants: ConstantPool = field(default_factory=ConstantPool)
    tasks: list[Task] = field(default_factory=list)
    expected: bytearray = field(default_factory=bytearray)

    def room(self, content: bytes) -> Ref:
        """Output memory that must hold ``content`` at the end."""
        place = Ref(BufferId.OUTPUT, len(self.expected))
        self.expected += content
        return place

    def conv(
        self,
        x: npt.NDArray[Any],
        kernels: npt.ArrayLike,
        before: npt.ArrayLike,
        bs: BsStage | None = None,
        out: OutConvert = AS_IT_IS,
        *,
        element: Element = Element.INT8,
        bias: npt.ArrayLike = (),
        bn: BnStage | None = None,
        ew: EwStage | None = None,
        depthwise: bool = False,
        zero_point: int = 0,
        source: Ref | None = None,
        row_pixels: int = 0,
        surface_pixels: int = 0,
        pads: tuple[int, int, int] = (0, 0, 0),
        dilation: tuple[int, int] = (1, 1),
        spread: int = 1,
        keeps_weights: bool = False,
        table: TableUse | None = None,
        sums: bool = False,
        target: Ref | None = None,
        line_pixels: int = 0,
        surface_bytes: int = 0,
        packed: Ref | None = None,
    ) -> Ref:
        """A convolution of stride 1 on tensors of ``element``; ``before``: what reaches OUT_CVT,
        [channels, height, width], which is written as int32 with ``sums``. ``bs`` None: adds
        ``bias``. ``source``, ``row_pixels``, ``surface_pixels``: where ``x`` lies already, as a
        part of a larger map. ``pads``: top, left and the value. ``zero_point``: what a chip of
        depthwise pairs takes off the ``kernels``. ``packed``: where these lie already as weights.
        Returns where the result lies.
        """
        weights = np.asarray(kernels).astype(element.dtype)
        result = np.asarray(before)
        if bs is None:
            values = np.zeros(len(result), np.float64 if element is Element.FP16 else np.int64)
            values[: np.size(bias)] = bias
            bs = self.adding(values, element, depthwise=depthwise)
        data_banks = self.chip.cbuf.data_banks or 1
        of_result = Element.INT32 if sums else element
        group = self.chip.groups.outputs(depthwise) * (of_result.bytes if sums else 1)
        output = self._output(result, out, of_result, target, group // ATOM_BYTES)
        return self._add(
            ConvTask(
                tile="",
                feature=self._feature(x, element, source, row_pixels, surface_pixels, pads),
                weights=self._weights(weights, depthwise, zero_point, packed),
                cbuf=CbufPlan(data_banks, self.chip.cbuf.banks - data_banks, keeps_weights),
                output=replace(
                    output,
                    surface_stride_bytes=surface_bytes or output.surface_stride_bytes,
                    line_stride_bytes=line_pixels * ATOM_BYTES or None,
                ),
                bs=bs,
                out_convert=out,
                dilations=dilation,
                is_depthwise=depthwise,
                bn=bn or BnStage(),
                ew=ew,
                spread=(spread, spread),
                table=table,
                element=element,
            )
        )

    def _feature(
        self, x: npt.NDArray[Any], element: Element, source: Ref | None, row_pixels: int,
        surface_pixels: int, pads: tuple[int, int, int],
    ) -> FeatureInput:  # fmt: skip
        channels, height, width = x.shape
        return FeatureInput(
            source=self.constants.add(cube(x, element)) if source is None else source,
            height=height,
            width=width,
            channels=channels,
            channels_real=channels,
            line_stride_bytes=(row_pixels or width) * ATOM_BYTES,
            surface_stride_bytes=(surface_pixels or height * width) * ATOM_BYTES,
            entries_per_row=entries_per_row(self.chip.cbuf, width, channels, element.bytes),
            pad_top=pads[0],
            pad_left=pads[1],
            pad_value=pads[2],
        )

    def _weights(
        self, weights: npt.NDArray[Any], depthwise: bool, zero_point: int, packed: Ref | None
    ) -> Weights:
        groups, is_half = self.chip.groups, weights.dtype == np.float16
        count = 1 if depthwise else len(weights)
        if depthwise and is_half:
            content = pack_depthwise_half(weights, groups)
        elif is_half:
            content = pack_dense_half(weights, count, groups)
        elif depthwise and self.chip.forms.depthwise_pairs:
            content = pack_depthwise_pairs(weights, zero_point, groups)
        else:
            content = (pack_depthwise if depthwise else pack_dense)(weights, 0, groups)
        kh, kw = weights.shape[:2] if depthwise else weights.shape[1:3]
        place, size = packed or self.constants.add(content), len(content)
        return Weights(place, size, size // count, count, kh, kw)

    def _output(
        self, before: npt.NDArray[Any], out: OutConvert, element: Element, target: Ref | None,
        surfaces_per_group: int,
    ) -> OutputCube:  # fmt: skip
        channels, height, width = before.shape
        return OutputCube(
            target=target or self.room(written(before, out, element)),
            height=height,
            width=width,
            channels=channels,
            channels_real=channels,
            surface_stride_bytes=height * width * ATOM_BYTES,
            surfaces_per_group=surfaces_per_group,
            element_bytes=element.bytes,
        )

    def adding(
        self, summands: npt.NDArray[Any], element: Element = Element.INT8, *, depthwise: bool
    ) -> BsStage:
        """BS that adds a value per channel and nothing else."""
        if self.chip.forms.operand_blocks:
            return self.blocks(summands, np.ones_like(summands), depthwise=depthwise)
        pack = pack_half_bias if element is Element.FP16 else pack_bias
        operands = self.constants.add(pack(summands, len(summands)))
        return BsStage(alu=Source.MEMORY, operands=operands)

    def blocks(
        self,
        summands: Whole,
        multipliers: Whole,
        shift: int = 0,
        shift_of_negatives: int | None = None,
        *,
        of_inputs: int = 0,
        depthwise: bool = False,
    ) -> BsStage:
        """BS with all of its numbers in memory: summands and multipliers per channel, what the sums
        of inputs are multiplied by, which depthwise convolutions have none of, and shifts.
        """
        negative = shift if shift_of_negatives is None else shift_of_negatives
        ow = None if depthwise else of_inputs
        packed = pack_operand_blocks(summands, multipliers, len(summands), ow=ow)
        return BsStage(
            alu=Source.MEMORY,
            mul=Source.MEMORY,
            ow=Source.OFF if depthwise else Source.MEMORY,
            shift=shift,
            shift_negative=negative,
            operands=self.constants.add(packed),
            scalars=self.constants.add(pack_shifts(shift, negative)),
        )

    def map(
        self,
        x: npt.NDArray[Any],
        before: npt.ArrayLike,
        out: OutConvert = AS_IT_IS,
        *,
        element: Element = Element.INT8,
        bs: BsStage | None = None,
        bn: BnStage | None = None,
        ew: EwStage | None = None,
        table: TableUse | None = None,
        source: Ref | None = None,
        row_pixels: int = 0,
        surface_pixels: int = 0,
        target: Ref | None = None,
    ) -> Ref:
        """A task from memory; ``before`` has the shape of ``x``. The rest as in ``conv``."""
        pixels = surface_pixels or x.shape[1] * x.shape[2]
        return self._add(
            ElementwiseTask(
                tile="",
                source=self.constants.add(cube(x, element)) if source is None else source,
                source_surface_stride_bytes=pixels * ATOM_BYTES,
                output=self._output(np.asarray(before), out, element, target, 1),
                bs=bs or BsStage(),
                out_convert=out,
                bn=bn or BnStage(),
                ew=ew,
                table=table,
                source_line_stride_bytes=row_pixels * ATOM_BYTES or None,
                element=element,
            )
        )

    def _add(self, task: ConvTask | ElementwiseTask) -> Ref:
        self.tasks.append(task)
        return task.output.target

    def through(
        self,
        x: Whole,
        before: npt.ArrayLike,
        out: OutConvert = AS_IT_IS,
        *,
        add: int = 0,
        mul: int | None = None,
        shift: int = 0,
        shift_of_negatives: int = 0,
        bn: BnStage | None = None,
        ew: EwStage | None = None,
        table: TableUse | None = None,
    ) -> None:
        """``x`` through the stages behind a convolution that leaves it as it is; ``add`` (with
        ``mul``), ``mul`` and its shifts: of BS.
        """
        channels = len(x)
        bs = None
        if mul is not None:
            bs = replace(
                self.adding(np.full(channels, add), depthwise=False),
                mul=Source.REGISTER,
                mul_operand=mul,
                shift=shift,
                shift_negative=shift_of_negatives,
            )
        kernels = np.eye(channels, dtype=np.int64).reshape(channels, 1, 1, channels)
        self.conv(x, kernels, before, bs, out, bn=bn, ew=ew, table=table)

    def plain(self, seed: int = 1) -> None:
        """A convolution without anything else: what others leave behind."""
        x = self.values(16, 4, 4, seed=seed)
        kernels = small_kernels(32, 1, 1, 16)
        self.conv(x, kernels, dense(x, kernels))

    @staticmethod
    def values(channels: int, height: int, width: int, seed: int = 0) -> Whole:
        """All of int8, evenly, the ends among them; no two channels or rows alike."""
        steps = np.arange(channels * height * width, dtype=np.int64) * 37 + seed * 101
        return ((steps + 13 * (steps // 256)) % 256 - 128).reshape(channels, height, width)

    def program(self, name: str) -> Program:
        """The Program of all tasks."""
        layer = Layer(name, "PROOF", (0,), tuple(self.tasks))
        if self.chip.forms.operand_blocks:
            layer = in_known_forms(layer, self.constants)
        atoms = None
        if uses_tables((layer,)):
            atoms = self.constants.add(bytes(ATOM_BYTES)), self.room(bytes(ATOM_BYTES))
        content, size = self.constants.content(), len(self.expected)
        count, lanes = size // ATOM_BYTES, Element.INT8.lanes
        output = TensorBinding(
            0, "memory", (1, 1, count, lanes), Element.INT8, 1, 1, count, lanes, 1, size, size,
            Ref(BufferId.OUTPUT, 0),
        )  # fmt: skip
        buffers = (
            BufferSpec(BufferId.CONSTANTS, len(content), content),
            BufferSpec(BufferId.OUTPUT, size),
        )
        lowered = LoweredPartition(self.chip, name, (layer,), buffers, (), (output,), 0, atoms)
        return build_program(lowered, _PRODUCER)


def small_kernels(outputs: int, height: int, width: int, inputs: int) -> Whole:
    """Few weights that are not 0, so that sums of int8 stay in sight; different in all places."""
    taps = height * width * inputs
    kernels = np.zeros((outputs, taps), np.int64)
    for output in range(outputs):
        for number, weight in enumerate((1, -1, 2)):
            kernels[output, (output * 7 + number * 5) % taps] += weight
    return kernels.reshape(outputs, height, width, inputs)


def proof(chip: Chip, feature: str, describe: Describe, *, after_others: bool = True) -> Proof:
    """The proof that ``describe`` makes of tasks; ``after_others``: once more behind others."""
    bench = Bench(chip)
    describe(bench)
    if after_others:
        bench.plain()
        describe(bench)
    program = bench.program(feature)
    return Proof(feature, program, bytes(bench.expected))
