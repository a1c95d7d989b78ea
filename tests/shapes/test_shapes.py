"""Convolutions that others measured on silicon, and those of real models; and a product of
512 x 512 x 512 in fp16.
"""

import json

import pytest

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.builder.reals import Reals, numbers
from rk3588_conformance.conv_grid import MEASURED, measured_shapes
from rk3588_conformance.execution import prepare, run_case
from rk3588_conformance.families import case_names
from rk3588_conformance.outcome import Status
from tests.ops.half_models import SIMULATED
from tests.shared_folder import SHARED

REFERENCE = SHARED / "reference" / "shapes217.json"
REFERENCE_SHAPES = 217
# Distinct geometries of the file, so that a reader that loses some is seen.
COUNTS = {"measured": 192, "models": 202}
NAMES = list(case_names(None, "Measured."))
PARTS = 9


def words(entry: dict[str, object]) -> str:
    fields = ("batch", "in_h", "in_w", "in_c", "out_c", "kh", "kw", "groups", "stride", "padding")
    return "x".join(str(entry[field]) for field in fields)


@pytest.mark.skipif(not REFERENCE.is_file(), reason=f"no reference: {REFERENCE} does not exist")
def test_the_measured_shapes_are_the_references() -> None:
    document = json.loads(REFERENCE.read_text(encoding="utf-8"))
    entries = document["shapes"] + document["seed000_shapes"]
    assert len(document["shapes"]) == REFERENCE_SHAPES
    assert set(map(words, entries)) == set(MEASURED)


def test_the_list_is_whole() -> None:
    assert {name: len(set(measured_shapes(name))) for name in COUNTS} == COUNTS


def is_planned(name: str) -> bool:
    given = {"float": "fp16"} if name.endswith("fp16_plain") else {"numerics": "exact"}
    result = compile_model(prepare(name, None).model, Options.from_mapping(given, {}))
    return len(result.partitions) == 1 and not result.rejections


def test_every_shape_is_planned() -> None:
    shapes = [name for name in NAMES if name.split("/")[1].rsplit("_type_")[0] in MEASURED]
    assert len(shapes) == 2 * COUNTS["measured"]
    assert [name for name in shapes if not is_planned(name)] == []


@pytest.mark.parametrize(
    "part", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(3, PARTS))]
)
def test_every_element_is_right(part: int) -> None:
    """Every ninth of the shapes from three on; the others repeat it with other sizes."""
    given = {"device": "simulator", "numerics": "exact", "deny_ops": ""}
    options = Options.from_mapping(given, {})
    found = [run_case(name, None, options) for name in NAMES[part::PARTS]]
    assert [one for one in found if one.status is not Status.OK] == []


def test_depthwise_layers_are_not_a_task_per_channel() -> None:
    """They are as many as the input fills CBUF (11 banks of 32 KiB), and one."""
    judged = 0
    for name in NAMES:
        n, h, w, ic, oc, _, _, groups, *_ = name.split("/")[1].split("x")[:9]
        if name.endswith("int8") and groups == ic == oc != "1":
            model = prepare(name, None).model
            (compiled,) = compile_model(model, Options(numerics="exact")).partitions
            fills = -(-int(h) * int(w) * (int(ic) + 31) // (11 * 32768))
            assert compiled.tasks <= int(n) * (fills + 1), name
            judged += 1
    assert judged > 20


PRODUCT = 512
VENDOR_TASKS, VENDOR_ROWS = 4, 128
KERNELS, LANES = 16, 32
"""Numbers of fp16 that the array takes at once: cycles of a row are groups times blocks."""


def product_model(op: str) -> bytes:
    """BATCH_MATMUL takes the same matrix, outputs first."""
    net = Net("half product")
    x = net.input("x", (PRODUCT, PRODUCT), DType.FLOAT32)
    if op == "FULLY_CONNECTED":
        return net.build(net.fully_connected(x, PRODUCT, Reals(has_bias=False)))
    w = net.constant("w", numbers(net.rng, (PRODUCT, PRODUCT)))
    return net.build(net.computed_product(x, w, None, adj_y=True))


@pytest.mark.parametrize("op", ["FULLY_CONNECTED", "BATCH_MATMUL"])
def test_the_product_of_512_takes_half_as_many_tasks_as_the_vendors(op: str) -> None:
    """As many cycles of the array: the vendor's four tasks of 128 rows, by the formula of both."""
    model = product_model(op)
    (partition,) = compile_model(model, Options.from_mapping(SIMULATED, {})).partitions
    assert [len(layer.tasks) for layer in partition.layers] == [2]
    groups, blocks = PRODUCT // KERNELS, PRODUCT // LANES
    assert partition.estimate.npu_cycles == VENDOR_TASKS * VENDOR_ROWS * groups * blocks
