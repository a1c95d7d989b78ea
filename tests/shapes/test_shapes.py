"""Convolutions that others measured on silicon, and those of real models: compiled and computed.

shapes.csv lists both: ``measured`` are the distinct shapes of a sweep in fp16 by allbilly/rk3588
(217 shapes and 43 of an earlier run, all of which pass on a board), ``models`` are convolutions of
MobileNet, MobileDet and Inception, with the stride and padding that their sizes imply.

In int8, the program runs on the simulator and must equal the suite's reference in NumPy.
"""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from delegate._native import Executable
from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Padding
from delegate.model.tflite_reader import read_graph
from delegate.options import Options
from rk3588_conformance.builder import conv_model, depthwise_model
from rk3588_conformance.builder.layers import output_size
from rk3588_conformance.reference import compute, supports
from tests.lower.reference import random_inputs, tflite_outputs
from tests.shared_folder import SHARED

REFERENCE = SHARED / "reference" / "shapes217.json"
REFERENCE_SHAPES = 217
FILE = Path(__file__).with_name("shapes.csv")
# Distinct geometries of the file, so that a reader that loses some is seen.
MEASURED, MODELS = 192, 202


@dataclass(frozen=True, order=True)
class Shape:
    batch: int
    h: int
    w: int
    ic: int
    oc: int
    kh: int
    kw: int
    groups: int = 1
    stride: int = 1
    padding: str = "VALID"

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.ic == self.oc > 1

    def outputs(self) -> tuple[int, int]:
        padding = Padding[self.padding]
        return (
            output_size(self.h, self.kh, self.stride, 1, padding),
            output_size(self.w, self.kw, self.stride, 1, padding),
        )


def shapes_of(name: str) -> list[Shape]:
    """Return one of the lists of shapes.csv: ``measured`` or ``models``."""
    with FILE.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row.pop("list") == name]
    return [
        Shape(**{key: value if key == "padding" else int(value) for key, value in row.items()})
        for row in rows
    ]


@pytest.mark.skipif(not REFERENCE.is_file(), reason=f"no reference: {REFERENCE} does not exist")
def test_the_measured_shapes_are_the_references():
    document = json.loads(REFERENCE.read_text(encoding="utf-8"))
    fields = ("batch", "in_h", "in_w", "in_c", "out_c", "kh", "kw", "groups", "stride")
    entries = document["shapes"] + document["seed000_shapes"]
    assert len(document["shapes"]) == REFERENCE_SHAPES
    assert {entry["padding"] for entry in entries} == {"valid"}
    assert {Shape(*(entry[field] for field in fields)) for entry in entries} == set(
        shapes_of("measured")
    )


def test_the_list_is_whole():
    assert len(set(shapes_of("measured"))) == MEASURED
    assert len(set(shapes_of("models"))) == MODELS


@pytest.mark.parametrize(
    "part", [0, 1, 2, *(pytest.param(part, marks=pytest.mark.exhaustive) for part in range(3, 9))]
)
def test_int8_equals_numpy(part):
    """Every ninth of the shapes from three on; the others repeat it with other sizes."""
    for shape in (shapes_of("measured") + shapes_of("models"))[part::9]:
        check_int8(shape)


def check_int8(shape):
    rng = np.random.default_rng([shape.h, shape.w, shape.ic, shape.oc, shape.kh])
    kernel = (shape.kh, shape.kw, shape.stride, shape.stride)
    common = {"padding": Padding[shape.padding], "dtype": DType.INT8, "batch": shape.batch}
    if shape.is_depthwise:
        model = depthwise_model(rng, shape.h, shape.w, shape.ic, *kernel, **common)
    else:
        model = conv_model(
            rng, shape.h, shape.w, shape.ic, shape.oc, *kernel, groups=shape.groups, **common
        )
    graph = read_graph(model)
    result = compile_model(graph, Options(numerics="exact"))
    assert result.rejections == ()
    (compiled,) = result.partitions
    if shape.is_depthwise:
        # Not one task per channel: as many as the input fills CBUF (11 banks of 32 KiB), and one.
        fills = -(-shape.h * shape.w * (shape.ic + 31) // (11 * 32768))
        assert compiled.tasks <= shape.batch * (fills + 1)
    arrays = random_inputs(graph, graph.inputs, rng)
    (ours,) = Executable(compiled.program, "simulator").run(arrays)
    if supports(graph):
        (expected,) = compute(graph, dict(zip(graph.inputs, arrays, strict=True)))
    else:  # groups
        (expected,) = tflite_outputs(model, compiled.partition, arrays)
    np.testing.assert_array_equal(ours, expected, err_msg=str(shape))
