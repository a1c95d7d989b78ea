"""Tests what hosts do to interpreters: resize, batches, dynamic shapes, control flow, signatures,
options of the interpreter, other delegates. Models run as they are and compiled ahead of time; the
outputs are those of the reference kernels.
"""

import contextlib
import copy
import gc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import delegate
import rk3588_conformance.builder.layers as layers
from delegate.host.runtimes import find_runtime
from delegate.model.graph import DType
from delegate.ops.add import AddOptions
from rk3588_conformance.builder import Net, options
from rk3588_conformance.builder.options import BuiltinOptions
from rk3588_conformance.builder.ranges import random_quantization
from tests.aot.models import rich_model
from tests.hosts.conftest import compiled, outputs_of_first_program
from tests.inferences import assert_same

RUNTIME = find_runtime()
WHILE_OPTIONS, LESS_OPTIONS = 93, 41  # of the schema's union BuiltinOptions

as_it_is_and_compiled = pytest.mark.parametrize(
    "prepared", [lambda model: model, compiled], ids=["as it is", "compiled"]
)
Prepared = Callable[[bytes], bytes]


def load() -> Any:
    return RUNTIME.load_delegate(
        delegate.library_path(), {"device": "simulator", "log_level": "error"}
    )


def interpreter(model: bytes, **arguments: Any) -> Any:
    arguments.setdefault("experimental_delegates", [load()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tensorflow's of its age, litert's of memory
        return RUNTIME.module.Interpreter(model_content=model, **arguments)


def reference(model: bytes) -> Any:
    resolver = RUNTIME.module.OpResolverType.BUILTIN_REF
    return interpreter(model, experimental_delegates=[], experimental_op_resolver_type=resolver)


def run(made: Any, *values: np.ndarray) -> list[np.ndarray]:
    for item, value in zip(made.get_input_details(), values, strict=True):
        made.set_tensor(item["index"], value)
    made.invoke()
    return [made.get_tensor(item["index"]).copy() for item in made.get_output_details()]


def image(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-128, 128, shape).astype(np.int8)


def check(ours: Any, theirs: Any, *values: np.ndarray) -> list[np.ndarray]:
    """Both allocated, for the same inputs; returns the results, which are equal."""
    for made in (ours, theirs):
        made.allocate_tensors()
    expected = run(theirs, *values)
    assert_same(run(ours, *values), expected)
    return expected


def conv_model(*, signature: bool = False) -> bytes:
    rng = np.random.default_rng(21)
    builder = Net("conv", rng)
    quantization = random_quantization(rng, DType.INT8, None, None)
    x = builder.input("x", (1, 6, 5, 4), DType.INT8, quantization, shape_signature=(-1, 6, 5, 4))
    y = builder.conv(x, 7, layers.Window(3, 3))
    builder.output(y)
    if signature:
        builder.signature("serving_default", {"x": x}, {"y": y})
    return builder.build()


def test_resize_before_and_after_allocating():
    rng = np.random.default_rng(1)
    ours, theirs = interpreter(conv_model()), reference(conv_model())
    for batch in (3, 1, 2, 3):
        x = image(rng, batch, 6, 5, 4)
        for made in (ours, theirs):
            made.resize_tensor_input(made.get_input_details()[0]["index"], x.shape)
        check(ours, theirs, x)


def test_signature_runner_with_batches():
    rng = np.random.default_rng(2)
    ours = interpreter(conv_model(signature=True)).get_signature_runner()
    theirs = reference(conv_model(signature=True)).get_signature_runner()
    for batch in (1, 4, 2):
        x = image(rng, batch, 6, 5, 4)
        assert_same([ours(x=x)["y"]], [theirs(x=x)["y"]])


def test_compiled_signature_keeps_its_names():
    x = image(np.random.default_rng(3), 1, 6, 5, 4)
    ours = interpreter(compiled(conv_model(signature=True)))
    assert ours.get_signature_list() == {"serving_default": {"inputs": ["x"], "outputs": ["y"]}}
    result = ours.get_signature_runner()(x=x)["y"]
    just_in_time = interpreter(conv_model(signature=True)).get_signature_runner()(x=x)["y"]
    np.testing.assert_array_equal(result, just_in_time)


def test_compiled_model_refuses_other_shapes_and_works_again_with_its_own():
    x = image(np.random.default_rng(4), 1, 6, 5, 4)
    made = interpreter(compiled(conv_model()))
    made.allocate_tensors()
    expected = run(made, x)
    index = made.get_input_details()[0]["index"]
    made.resize_tensor_input(index, (2, 6, 5, 4))
    with pytest.raises(RuntimeError, match=r"was compiled for tensor .* of shape \[1,6,5,4\]"):
        made.allocate_tensors()
    made.resize_tensor_input(index, (1, 6, 5, 4))
    made.allocate_tensors()
    np.testing.assert_array_equal(run(made, x)[0], expected[0])


def dynamic_model() -> bytes:
    """The height of the convolution's input is a value that the model gets as an input."""
    rng = np.random.default_rng(22)
    builder = Net("dynamic", rng)
    quantization = random_quantization(rng, DType.INT8, None, None)
    x = builder.input("x", (1, 24, 1, 4), DType.INT8, quantization)
    shape = builder.input("shape", (4,), DType.INT32)
    dynamic = builder.tensor(
        "dynamic", (1, 1, 1, 4), DType.INT8, quantization, shape_signature=(1, -1, -1, 4)
    )
    builder.operator("RESHAPE", [x, shape], [dynamic], options.reshape([]))
    first = builder.conv(x, 5, layers.Window(1, 1), name="still")
    second = builder.conv(dynamic, 3, layers.Window(1, 1), name="moving")
    return builder.build(first, second)


def test_a_result_of_a_compiled_model_that_nobody_reads():
    rng = np.random.default_rng(22)
    builder = Net("two heads", rng)
    quantization = random_quantization(rng, DType.INT8, None, None)
    x = builder.input("x", (1, 6, 5, 4), DType.INT8, quantization)
    for channels in (7, 3):
        builder.output(builder.conv(x, channels, layers.Window(3, 3)))
    both = compiled(builder.build())
    values = image(rng, 1, 6, 5, 4)
    two, one = (interpreter(c) for c in (both, outputs_of_first_program(both, most=1)))
    for made in (two, one):
        made.allocate_tensors()
    np.testing.assert_array_equal(run(one, values)[0], run(two, values)[0])


@as_it_is_and_compiled
def test_dynamic_shapes_inside_the_graph(prepared: Prepared):
    rng = np.random.default_rng(5)
    ours, theirs = interpreter(prepared(dynamic_model())), reference(dynamic_model())
    check(ours, theirs, image(rng, 1, 24, 1, 4), np.array([1, 4, 6, 4], np.int32))
    for h, w in ((12, 2), (4, 6)):
        values = (image(rng, 1, 24, 1, 4), np.array([1, h, w, 4], np.int32))
        assert_same(run(ours, *values), run(theirs, *values))


def loop_model() -> bytes:
    """WHILE counter < 3: counter += 1, x = conv(x)."""
    rng = np.random.default_rng(23)
    builder = Net("loop", rng)
    quantization = random_quantization(rng, DType.INT8, None, None)
    shape = (1, 5, 4, 6)

    def state(prefix: str) -> list[int]:
        return [
            builder.input(f"{prefix}_counter", (1,), DType.INT32),
            builder.input(f"{prefix}_x", shape, DType.INT8, quantization),
        ]

    inputs = state("main")
    outputs = [
        builder.tensor("counter", (1,), DType.INT32),
        builder.tensor("result", shape, DType.INT8, quantization),
    ]
    subgraphs = {slot: (slot + 1).to_bytes(4, "little") for slot in (0, 1)}
    builder.operator("WHILE", inputs, outputs, BuiltinOptions(WHILE_OPTIONS, subgraphs))
    for tensor in outputs:
        builder.output(tensor)
    builder.subgraph("condition")
    counter, _ = state("condition")
    limit = builder.constant("limit", np.array([3], np.int32))
    go_on = builder.tensor("go_on", (1,), DType.BOOL)
    builder.operator("LESS", [counter, limit], [go_on], BuiltinOptions(LESS_OPTIONS))
    builder.output(go_on)
    builder.subgraph("body")
    counter, x = state("body")
    one = builder.constant("one", np.array([1], np.int32))
    following = builder.tensor("following", (1,), DType.INT32)
    builder.operator("ADD", [counter, one], [following], AddOptions())
    builder.output(following)
    return builder.build(builder.conv(x, 6, layers.Window(3, 3)))


@as_it_is_and_compiled
def test_control_flow(prepared: Prepared):
    rng = np.random.default_rng(6)
    values = (np.array([0], np.int32), image(rng, 1, 5, 4, 6))
    found = check(interpreter(prepared(loop_model())), reference(loop_model()), *values)
    assert found[0] == 3


@as_it_is_and_compiled
def test_several_interpreters_share_a_delegate(prepared: Prepared):
    x = image(np.random.default_rng(7), 1, 37, 1, 3)
    shared = load()
    made = [interpreter(prepared(rich_model()), experimental_delegates=[shared]) for _ in range(3)]
    for item in made:
        item.allocate_tensors()
    del shared
    gc.collect()
    first, *others = [run(item, x) for item in made]
    for other in others:
        assert_same(first, other)


@as_it_is_and_compiled
def test_all_tensors_preserved(prepared: Prepared):
    x = image(np.random.default_rng(8), 1, 37, 1, 3)
    made = interpreter(prepared(rich_model()), experimental_preserve_all_tensors=True)
    check(made, interpreter(prepared(rich_model())), x)


@as_it_is_and_compiled
@pytest.mark.parametrize("resolver", ["AUTO", "BUILTIN", "BUILTIN_REF",
                                      "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])  # fmt: skip
def test_every_choice_of_kernels(prepared: Prepared, resolver: str):
    x = image(np.random.default_rng(9), 1, 37, 1, 3)
    kind = getattr(RUNTIME.module.OpResolverType, resolver)
    made = interpreter(prepared(rich_model()), experimental_op_resolver_type=kind)
    check(made, reference(rich_model()), x)


def test_xnnpack_before_the_delegate():
    """Some runtimes can apply XNNPACK in the constructor: what it takes is gone for us. Its results
    may be a step beside the reference kernels'; with us they stay what they are."""
    x = image(np.random.default_rng(10), 1, 37, 1, 3)
    first = {"experimental_default_delegate_latest_features": True}
    try:
        made = interpreter(rich_model(), **first)
    except TypeError:
        pytest.skip(f"{RUNTIME.name} {RUNTIME.version} applies no delegate before ours")
    check(made, interpreter(rich_model(), experimental_delegates=[], **first), x)


@as_it_is_and_compiled
def test_delegate_deleted_early(prepared: Prepared):
    x = image(np.random.default_rng(11), 1, 37, 1, 3)
    made = interpreter(prepared(rich_model()))
    made.allocate_tensors()
    expected = run(made, x)
    with contextlib.suppress(AttributeError):
        made._delegates = None
    gc.collect()
    assert_same(run(made, x), expected)


@as_it_is_and_compiled
def test_copied_delegate(prepared: Prepared):
    x = image(np.random.default_rng(12), 1, 37, 1, 3)
    original = load()
    twin = copy.copy(original)
    made = interpreter(prepared(rich_model()), experimental_delegates=[twin])
    made.allocate_tensors()
    expected = run(made, x)
    del original
    gc.collect()
    assert_same(run(made, x), expected)
    # The copy is of one that is gone: it takes nothing, and is destroyed once more.
    later, alone = (
        interpreter(rich_model(), experimental_delegates=given) for given in ([twin], [])
    )
    check(later, alone, x)
    del twin, later
    gc.collect()
    assert_same(run(made, x), expected)


def test_damaged_compiled_model_is_an_error_of_the_interpreter():
    model = bytearray(compiled(rich_model()))
    model[bytes(model).index(b"RKNP") + 300] ^= 4
    with pytest.raises((RuntimeError, ValueError), match="checksum mismatch"):
        interpreter(bytes(model)).allocate_tensors()
