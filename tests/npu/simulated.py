"""Runs hand-made tasks on the simulator, as one kick per task and as a chain."""

from __future__ import annotations

import dataclasses

import numpy as np

from delegate.chip.rk3588 import RK3588
from delegate.insight.capture import replay
from delegate.insight.program_capture import capture_of_program
from delegate.lower.lowered import Layer, LoweredPartition
from delegate.lower.task import BufferId, ConvTask, ElementwiseTask, Ref
from delegate.npu.program import build_program
from tests.npu.sample_programs import binding
from tests.npu.sample_tasks import align, surface_bytes


class Constants:
    """The CONSTANTS buffer while it is filled."""

    def __init__(self):
        self.content = bytearray()

    def add(self, data):
        self.content += bytes(-len(self.content) % 64)
        place = Ref(BufferId.CONSTANTS, len(self.content))
        self.content += data
        return place


def layer(name: str, *tasks: ConvTask | ElementwiseTask) -> Layer:
    return Layer(name, "CONV_2D", (0,), tasks)


def random_int8(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape, dtype=np.int16).astype(np.int8)


def run_and_compare(layers, constants, inputs, outputs, scratch=0):
    """``inputs`` and ``outputs``: (int8 values [h, w, c], surfaces); all elements must be equal."""
    bound = {BufferId.INPUT: [], BufferId.OUTPUT: []}
    sizes = {BufferId.INPUT: 0, BufferId.OUTPUT: 0}
    for buffer, tensors in ((BufferId.INPUT, inputs), (BufferId.OUTPUT, outputs)):
        for values, surfaces in tensors:
            h, w, c = values.shape
            item = binding(
                tensor=len(bound[buffer]),
                h=h,
                w=w,
                c=c,
                place=Ref(buffer, sizes[buffer]),
                surfaces=surfaces,
            )
            bound[buffer].append(dataclasses.replace(item, fill=0))
            sizes[buffer] += surfaces * surface_bytes(h, w)
    lowered = LoweredPartition(
        chip=RK3588,
        name="test",
        layers=tuple(layers),
        constants=bytes(constants.content),
        sizes_bytes={
            BufferId.CONSTANTS: align(len(constants.content), 4096),
            BufferId.SCRATCH: scratch,
            **sizes,
        },
        inputs=tuple(bound[BufferId.INPUT]),
        outputs=tuple(bound[BufferId.OUTPUT]),
    )
    capture = capture_of_program(
        build_program(lowered, "test"),
        [values[None] for values, _ in inputs],
        [values[None] for values, _ in outputs],
        "test",
    )
    for chained in (False, True):
        result = replay(capture, chained=chained)
        assert result.error is None
        assert result.passed
        assert (result.max_abs_diff, result.equal) == (0, 1.0)
