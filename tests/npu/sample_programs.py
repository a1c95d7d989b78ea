"""Small hand-made partitions: row tiles with shared weights, an addition, a chain of both."""

import dataclasses
import struct
import zlib

import numpy as np

from delegate.chip.element import Element
from delegate.chip.rk3588 import RK3588
from delegate.lower.lowered import Layer, LoweredPartition, TensorBinding
from delegate.lower.task import BufferId, Ref
from delegate.npu.program_types import Slot
from tests.npu.sample_tasks import add_task, align, conv_task, surface_bytes


def binding(
    *,
    tensor: int,
    h: int,
    w: int,
    c: int,
    place: Ref,
    element: Element = Element.INT8,
    surfaces: int | None = None,
) -> TensorBinding:
    surfaces = surfaces or align(c, 16) // 16
    return TensorBinding(
        tensor=tensor,
        name=f"tensor_{tensor}",
        shape=(1, h, w, c),
        element=element,
        images=1,
        height=h,
        width=w,
        channels=c,
        surfaces=surfaces,
        surface_stride_bytes=surface_bytes(h, w),
        image_stride_bytes=surfaces * surface_bytes(h, w),
        location=place,
        fill=-3,
    )


def chain_partition() -> LoweredPartition:
    """A 3x3 convolution in two row tiles into SCRATCH, then an addition of that and the input.

    Input and output 8 x 6 x 16, the second tile starts at row 5 and reuses the weights.
    """
    h, w, c = 8, 6, 16
    pitch = surface_bytes(h, w)
    rng = np.random.default_rng(3)
    constants = rng.integers(0, 256, 4096, dtype=np.uint8).tobytes()
    first = conv_task(
        h=6, w=w, c=c, oc=c, oh=5, ow=w, target=Ref(BufferId.SCRATCH, 0), tile="rows 0..4"
    )
    second = conv_task(
        h=4,
        w=w,
        c=c,
        oc=c,
        oh=3,
        ow=w,
        pad_top=0,
        source=Ref(BufferId.INPUT, 4 * w * 16),
        target=Ref(BufferId.SCRATCH, 5 * w * 16),
        tile="rows 5..7",
        weight_reuse=True,
    )
    tiles = tuple(whole_surface(task, pitch) for task in (first, second))
    add = add_task(h=h, w=w, c=c, a=Ref(BufferId.SCRATCH, 0), b=Ref(BufferId.INPUT, 0))
    return LoweredPartition(
        chip=RK3588,
        name="chain",
        layers=(Layer("0 CONV_2D", "CONV_2D", (0,), tiles), Layer("1 ADD", "ADD", (1,), (add,))),
        constants=constants,
        sizes_bytes={
            BufferId.CONSTANTS: 8192,
            BufferId.SCRATCH: 2 * pitch,
            BufferId.INPUT: pitch,
            BufferId.OUTPUT: pitch,
        },
        inputs=(binding(tensor=0, h=h, w=w, c=c, place=Ref(BufferId.INPUT, 0)),),
        outputs=(
            binding(tensor=3, h=h, w=w, c=c, place=Ref(BufferId.OUTPUT, 0), element=Element.UINT8),
        ),
    )


def whole_surface(task, pitch):
    """``task`` with the surface pitch of the whole tensor on both sides."""
    return dataclasses.replace(
        task,
        feature=dataclasses.replace(task.feature, surface_stride_bytes=pitch),
        output=dataclasses.replace(task.output, surface_stride_bytes=pitch),
    )


def checksum_position(data: bytearray) -> int:
    """Return where the checksum lies, if the table is well-formed."""
    (table,) = struct.unpack_from("<I", data, 0)
    (back,) = struct.unpack_from("<i", data, table)
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * Slot.CHECKSUM)
    return int(table + offset)


def resealed(data: bytes | bytearray) -> bytes:
    """``data`` with the checksum it ought to have, if its table can still be found."""
    blank = bytearray(data)
    try:
        place = checksum_position(blank)
        struct.pack_into("<Q", blank, place, 0)
        struct.pack_into("<Q", blank, place, zlib.crc32(blank))
    except struct.error:
        return bytes(data)
    return bytes(blank)
