"""Programs of the slot ids of delegate/npu/program.fbs, without the product's writer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import flatbuffers  # type: ignore[import-untyped]

from tests.npu.sample_programs import resealed

REGCMD, CONSTANTS, SCRATCH, INPUT, OUTPUT = range(5)
UINT8, INT8, INT16, INT32, FP16, FP32 = range(6)
TASK_WORDS = 8


@dataclass
class Binding:
    tensor: int
    shape: tuple[int, ...]
    buffer: int
    element: int = UINT8
    images: int = 1
    height: int = 1
    width: int = 1
    channels: int = 1
    surfaces: int | None = None
    surface_stride: int | None = None
    image_stride: int | None = None
    offset: int = 0
    fill: int = 0
    # height, width, channels, window_h, window_w, step_h, step_w, top, left
    fold: tuple[int, ...] = ()
    # scale, zero point, element
    affine: tuple[float, int, int] | None = None
    table: bytes = b""
    # first, image, row, pixel, channel
    spread: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.surfaces is None:
            self.surfaces = -(-self.channels // 16)
        if self.surface_stride is None:
            self.surface_stride = self.height * self.width * 16
        if self.image_stride is None:
            self.image_stride = self.surfaces * self.surface_stride

    @property
    def end(self) -> int:
        assert self.image_stride is not None
        return self.offset + self.images * self.image_stride


def nhwc(tensor: int, shape: Sequence[int], buffer: int, **changes: Any) -> Binding:
    """A binding for a tensor whose last four dimensions are NHWC (missing leading ones are 1)."""
    n, h, w, c = (1,) * (4 - len(shape)) + tuple(shape)
    return Binding(tensor, tuple(shape), buffer, images=n, height=h, width=w, channels=c, **changes)


@dataclass
class ProgramSpec:
    """Every field may be spoiled by a test before build()."""

    inputs: list[Binding]
    outputs: list[Binding]
    sizes: list[int] = field(default_factory=list)
    contents: dict[int, bytes] = field(default_factory=dict)
    relocs: list[tuple[int, int, int]] = field(
        default_factory=lambda: [(0, INPUT, 0), (1, OUTPUT, 0)]
    )
    tasks: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    layers: list[str] = field(default_factory=lambda: ["layer"])
    version: int = 7
    chip: str = "rk3588"
    checksum: int | None = None

    def __post_init__(self) -> None:
        if not self.sizes:
            ends = {b: max([x.end for x in self.inputs + self.outputs if x.buffer == b], default=0)
                    for b in (INPUT, OUTPUT)}  # fmt: skip
            self.sizes = [64 * len(self.tasks), 0, 64, ends[INPUT], ends[OUTPUT]]

    def build(self, identifier: bytes = b"RKNP") -> bytes:
        b = flatbuffers.Builder(1024)
        buffers = self._vector(b, [self._buffer(b, i) for i in range(len(self.sizes))])
        layers = self._vector(b, [self._layer(b, name) for name in self.layers])
        tasks = self._vector(b, [self._task(b, i, t) for i, t in enumerate(self.tasks)])
        inputs = self._vector(b, [self._binding(b, x) for x in self.inputs])
        outputs = self._vector(b, [self._binding(b, x) for x in self.outputs])
        relocs = self._relocs(b)
        compiler, name = b.CreateString("test"), b.CreateString("test program")
        chip = b.CreateString(self.chip)
        b.StartObject(11)
        b.PrependUint32Slot(0, self.version, 0)
        offsets = (compiler, name, buffers, relocs, layers, tasks, inputs, outputs)
        for slot, offset in enumerate(offsets, 1):
            b.PrependUOffsetTRelativeSlot(slot, offset, 0)
        b.PrependUint64Slot(9, self.checksum or 1, 0)
        b.PrependUOffsetTRelativeSlot(10, chip, 0)
        b.Finish(b.EndObject(), file_identifier=identifier)
        return resealed(b.Output()) if self.checksum is None else bytes(b.Output())

    def _buffer(self, b: Any, index: int) -> int:
        content = b.CreateByteVector(self.contents.get(index, b""))
        b.StartObject(2)
        b.PrependUint64Slot(0, self.sizes[index], 0)
        b.PrependUOffsetTRelativeSlot(1, content, 0)
        return int(b.EndObject())

    def _layer(self, b: Any, name: str) -> int:
        text = b.CreateString(name)
        b.StartObject(3)
        b.PrependUOffsetTRelativeSlot(0, text, 0)
        return int(b.EndObject())

    def _task(self, b: Any, index: int, task: Mapping[str, Any]) -> int:
        values = {"regcmd_offset": 64 * index, "regcmd_count": TASK_WORDS, "enable_mask": 0x1D,
                  "int_mask": 0x300, "layer": 0, "job": 0, **task}  # fmt: skip
        b.StartObject(10)
        for slot, key in enumerate(
            ("regcmd_offset", "regcmd_count", "enable_mask", "int_mask", "layer", "job")
        ):
            b.PrependUint32Slot(slot, values[key], 0)
        return int(b.EndObject())

    def _binding(self, b: Any, x: Binding) -> int:
        name = b.CreateString(f"tensor{x.tensor}")
        b.StartVector(4, len(x.shape), 4)
        for dimension in reversed(x.shape):
            b.PrependInt32(dimension)
        shape = b.EndVector()
        table = b.CreateByteVector(x.table) if x.table else 0
        b.StartObject(33)
        b.PrependInt32Slot(0, x.tensor, 0)
        b.PrependUOffsetTRelativeSlot(1, name, 0)
        b.PrependUOffsetTRelativeSlot(2, shape, 0)
        b.PrependUint8Slot(3, x.element, 0)
        for slot, key in enumerate(("images", "height", "width", "channels", "surfaces"), 4):
            b.PrependUint32Slot(slot, getattr(x, key), 0)
        b.PrependUint64Slot(9, x.surface_stride, 0)
        b.PrependUint64Slot(10, x.image_stride, 0)
        b.PrependUint32Slot(11, x.buffer, 0)
        b.PrependUint64Slot(12, x.offset, 0)
        b.PrependInt8Slot(13, x.fill, 0)
        for slot, value in enumerate(x.fold, 14):
            b.PrependUint32Slot(slot, value, 0)
        if x.affine is not None:
            b.PrependFloat32Slot(23, x.affine[0], 0.0)
            b.PrependInt32Slot(24, x.affine[1], 0)
            b.PrependUint8Slot(25, x.affine[2], 0)
        b.PrependUOffsetTRelativeSlot(26, table, 0)
        b.PrependUint8Slot(27, bool(x.spread), 0)
        for slot, value in enumerate(x.spread, 28):
            b.PrependUint64Slot(slot, value, 0)
        return int(b.EndObject())

    def _relocs(self, b: Any) -> int:
        b.StartVector(16, len(self.relocs), 8)
        for word, buffer, addend in reversed(self.relocs):
            b.Prep(8, 16)
            b.PrependUint64(addend)
            b.PrependUint32(buffer)
            b.PrependUint32(word)
        return int(b.EndVector())

    @staticmethod
    def _vector(b: Any, offsets: Sequence[int]) -> int:
        b.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            b.PrependUOffsetTRelative(offset)
        return int(b.EndVector())
