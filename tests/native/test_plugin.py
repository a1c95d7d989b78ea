"""The plugin in a real runtime: create and destroy, options, snapshot, partitions, lifetimes."""

from __future__ import annotations

import copy
import ctypes
import gc
import logging
import subprocess
import sys
import threading

import numpy as np
import pytest

import delegate
import delegate.builder.layers as layers
from delegate import _native
from delegate.builder import ModelBuilder
from delegate.builder.ranges import random_quantization
from delegate.errors import DelegateError, LoweringError, Rule
from delegate.model.graph import DType
from delegate.ops.depthwise_conv_2d import DepthwiseOptions

CONV_NODES = (0, 2)


def invoke(interpreter, value: int = 3) -> np.ndarray:
    detail = interpreter.get_input_details()[0]
    interpreter.set_tensor(detail["index"], np.full(detail["shape"], value, detail["dtype"]))
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_create_and_destroy_with_no_options(runtime, monkeypatch):
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "null")
    loaded = runtime.load_delegate(delegate.library_path())
    del loaded
    gc.collect()


def test_unknown_option_is_named_with_the_valid_ones(load):
    with pytest.raises(ValueError, match=r"unknown option 'devise'.*valid: device, cores"):
        load(devise="null")


def test_malformed_value_is_named(load):
    with pytest.raises(ValueError, match=r"'timeout_ms' is 'soon'"):
        load(timeout_ms="soon")


@pytest.mark.skipif(_native.find_npu_node() != "", reason="this machine has an NPU")
def test_device_that_is_not_there(load):
    with pytest.raises(ValueError, match="device rocket: no node of this driver was found"):
        load(device="rocket")


@pytest.mark.skipif(_native.find_npu_node() != "", reason="this machine has an NPU")
def test_strict_refuses_the_simulator_in_place_of_an_npu(load):
    with pytest.raises(ValueError, match="strict: no NPU was found"):
        load(device="auto", strict="true")


def test_unknown_option_from_a_host_without_a_reporter():
    """Such hosts crash on NULL, so they get a delegate that claims nothing."""
    library = ctypes.PyDLL(delegate.library_path())
    library.tflite_plugin_create_delegate.restype = ctypes.c_void_p
    strings = ctypes.c_char_p * 1
    pointer = library.tflite_plugin_create_delegate(
        strings(b"devise"), strings(b"null"), ctypes.c_size_t(1), None
    )
    assert pointer
    library.tflite_plugin_destroy_delegate(ctypes.c_void_p(pointer))


def test_only_the_low_half_of_the_number_of_options_counts():
    library = ctypes.PyDLL(delegate.library_path())
    library.tflite_plugin_create_delegate.restype = ctypes.c_void_p
    strings = ctypes.c_char_p * 1
    count = ctypes.c_size_t(0xDEADBEEF_00000001)
    pointer = library.tflite_plugin_create_delegate(
        strings(b"device"), strings(b"null"), count, None
    )
    library.tflite_plugin_destroy_delegate(ctypes.c_void_p(pointer))
    library.tflite_plugin_destroy_delegate(ctypes.c_void_p(pointer))
    library.tflite_plugin_destroy_delegate(None)


def test_partitions_run_with_one_submit_each(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    interpreter.allocate_tensors()
    before = _native.submit_count()
    output = invoke(interpreter)
    assert _native.submit_count() == before + len(CONV_NODES)
    assert (output == 128).all()  # zeroed device memory
    assert output.shape == (1, 7, 5, 5)


def test_the_snapshot_is_the_file(runtime, load, compiler, model):
    plain = runtime.Interpreter(model_content=model)
    details = {d["index"]: d for d in plain.get_tensor_details()}
    delegated = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    (graph,) = compiler.graphs
    assert [node.op for node in graph.nodes] == ["CONV_2D", "DEPTHWISE_CONV_2D", "CONV_2D"]
    constants = 0
    for index, detail in details.items():
        tensor = graph.tensors[index]
        assert (tensor.name, tensor.shape) == (detail["name"], tuple(detail["shape"]))
        parameters = detail["quantization_parameters"]
        np.testing.assert_array_equal(tensor.quantization.scales, parameters["scales"])
        np.testing.assert_array_equal(tensor.quantization.zero_points, parameters["zero_points"])
        if tensor.constant is not None:
            constants += 1
            assert not tensor.constant.flags.writeable
            assert not tensor.constant.flags.owndata
            np.testing.assert_array_equal(tensor.constant, plain.get_tensor(index))
    assert constants == 6
    options = graph.nodes[1].options_as(DepthwiseOptions)
    assert options is not None
    assert options.depth_multiplier == 1
    del delegated


def test_preview_names_the_edges_without_constants(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    (graph,) = compiler.graphs
    for node in CONV_NODES:
        op = graph.nodes[node]
        assert graph.tensors[op.inputs[1]].constant is not None
    with pytest.raises(RuntimeError, match="only while preparing"):
        compiler.previews[0]([0])
    del interpreter


@pytest.mark.parametrize("ops", [(), ("CONV_2D", "DEPTHWISE_CONV_2D"), ("DEPTHWISE_CONV_2D",)])
def test_any_choice_of_nodes(runtime, load, compiler, model, ops):
    compiler.ops = ops
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    interpreter.allocate_tensors()
    before = _native.submit_count()
    invoke(interpreter)
    assert _native.submit_count() == before + (1 if ops else 0)


@pytest.mark.parametrize(
    "failure", [LoweringError(0, Rule("rule", "It must fit"), "too wide"), ZeroDivisionError("bug")]
)
def test_a_failing_compiler_means_cpu_and_a_logged_reason(
    runtime, load, compiler, model, failure, caplog
):
    expected = invoke_on_cpu(runtime, model)
    compiler.fail = failure
    with caplog.at_level(logging.WARNING, "delegate"):
        interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    interpreter.allocate_tensors()
    np.testing.assert_array_equal(invoke(interpreter), expected)
    assert "nothing delegated" in caplog.text
    assert str(failure) in caplog.text


def invoke_on_cpu(runtime, model) -> np.ndarray:
    interpreter = runtime.Interpreter(model_content=model)
    interpreter.allocate_tensors()
    return invoke(interpreter)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (
            LoweringError(0, Rule("rule", "It must fit"), "too wide"),
            "rk3588 delegate: node 0: rule: It must fit: too wide\n",
        ),
        (ZeroDivisionError("bug"), "rk3588 delegate: internal error: ZeroDivisionError: bug\n"),
        (DelegateError("long " + "x" * 5000), "long " + "x" * 5000),
    ],
)
def test_strict_makes_it_an_error(runtime, load, compiler, model, failure, text):
    compiler.fail = failure
    with pytest.raises(RuntimeError) as caught:
        runtime.Interpreter(model_content=model, experimental_delegates=[load(strict="true")])
    assert text in str(caught.value)


def test_a_program_that_misses_a_tensor_is_an_error(runtime, load, compiler, model):
    def swap_programs(partitions):
        partitions[0].program, partitions[1].program = (
            partitions[1].program, partitions[0].program)  # fmt: skip
        return partitions

    compiler.spoil = swap_programs
    with pytest.raises(RuntimeError, match="does not read tensor"):
        runtime.Interpreter(model_content=model, experimental_delegates=[load()])


def test_a_corrupt_program_is_an_error(runtime, load, compiler, model):
    def truncate(partitions):
        partitions[0].program = partitions[0].program[:-1]
        return partitions

    compiler.spoil = truncate
    with pytest.raises(RuntimeError, match="rk3588 delegate: program: "):
        runtime.Interpreter(model_content=model, experimental_delegates=[load()])


def test_partitions_that_were_not_previewed_are_an_error(runtime, load, compiler, model):
    def merge(partitions):
        partitions[0].partition.nodes = [0, 2]
        return partitions[:1]

    compiler.spoil = merge
    with pytest.raises(RuntimeError, match="had not previewed"):
        runtime.Interpreter(model_content=model, experimental_delegates=[load()])


def test_nodes_taken_by_another_delegate_are_reported(runtime, load, compiler, model, caplog):
    loaded = load()
    with caplog.at_level(logging.WARNING, "delegate"):
        interpreter = runtime.Interpreter(
            model_content=model, experimental_delegates=[loaded, load()]
        )
    interpreter.allocate_tensors()
    assert (invoke(interpreter) == 128).all()
    assert "another delegate" in caplog.text
    assert "(2 partitions)" in caplog.text


def test_several_interpreters_per_delegate(runtime, load, compiler, model):
    loaded = load()
    interpreters = [
        runtime.Interpreter(model_content=model, experimental_delegates=[loaded]) for _ in range(3)
    ]
    for interpreter in interpreters:
        interpreter.allocate_tensors()
    assert all((invoke(interpreter) == 128).all() for interpreter in interpreters)
    del loaded, interpreters[0]
    gc.collect()
    assert all((invoke(interpreter) == 128).all() for interpreter in interpreters)


def test_resize_compiles_again(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    index = interpreter.get_input_details()[0]["index"]
    for batch in (3, 1, 2):
        interpreter.resize_tensor_input(index, (batch, 7, 5, 3))
        interpreter.allocate_tensors()
        assert invoke(interpreter).shape == (batch, 7, 5, 5)
        assert (invoke(interpreter) == 128).all()


def resized(runtime, model: bytes, shape, values, **arguments):
    """The interpreter, and what it gives for ``values``."""
    interpreter = runtime.Interpreter(model_content=model, **arguments)
    return interpreter, run_resized(interpreter, shape, values)


def run_resized(interpreter, shape, values) -> list[np.ndarray]:
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()
    shapes = [tuple(d["shape"]) for d in interpreter.get_output_details()]
    interpreter.set_tensor(index, values)
    interpreter.invoke()
    results = [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]
    assert [r.shape for r in results] == shapes  # told before the inference
    return results


def kernels(runtime, resolver: str):
    return {"experimental_op_resolver_type": getattr(runtime.OpResolverType, resolver)}


RESOLVERS = ("BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES")


@pytest.mark.parametrize("resolver", RESOLVERS)
@pytest.mark.parametrize("ops", [("CONV_2D",), ("CONV_2D", "DEPTHWISE_CONV_2D")])
def test_a_shape_that_does_not_compile_runs_on_the_cpu(
    runtime, load, compiler, model, caplog, ops, resolver
):
    """With the kernels and the results of the runtime alone; shapes that compile run on the NPU
    before and after.
    """
    compiler.ops = ops
    values = np.random.default_rng(3).integers(0, 256, (9, 7, 5, 3)).astype(np.uint8)
    arguments = kernels(runtime, resolver)
    _, (expected,) = resized(runtime, model, values.shape, values, **arguments)
    interpreter = runtime.Interpreter(
        model_content=model, experimental_delegates=[load()], **arguments
    )
    for _ in range(2):
        submits = _native.submit_count()
        (result,) = run_resized(interpreter, values.shape, values)
        assert _native.submit_count() == submits
        np.testing.assert_array_equal(result, expected)
        assert "do not compile for the new shapes and run on the CPU" in caplog.text
        (result,) = run_resized(interpreter, (1, 7, 5, 3), values[:1])
        assert _native.submit_count() > submits
        assert (result == 128).all()


def test_strict_makes_a_shape_that_does_not_compile_an_error_and_the_old_one_works_again(
    runtime, load, compiler, model
):
    compiler.ops = ("CONV_2D", "DEPTHWISE_CONV_2D")
    interpreter = runtime.Interpreter(
        model_content=model, experimental_delegates=[load(strict="true")]
    )
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (9, 7, 5, 3))
    with pytest.raises(RuntimeError, match=r"nodes \[0, 1, 2\] do not compile for the new shapes"):
        interpreter.allocate_tensors()
    interpreter.resize_tensor_input(index, (1, 7, 5, 3))
    interpreter.allocate_tensors()
    assert (invoke(interpreter) == 128).all()


def test_a_shape_that_neither_takes_is_an_error(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    index = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(index, (9, 7, 5, 4))  # images and channels
    with pytest.raises(RuntimeError, match="node 0, left to the CPU, fails to prepare"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_many_nodes_on_the_cpu_add_their_own_tensors(runtime, load, compiler, resolver):
    """Kernels hold pointers to tensors while they add some: the array must not move then."""
    rng = np.random.default_rng(7)
    builder = ModelBuilder("long")
    quantization = random_quantization(rng, DType.UINT8, None, None)
    x = builder.input("x", (1, 4, 5, 3), DType.UINT8, quantization)
    for _ in range(120):
        x = layers.conv(builder, rng, x, 3, layers.Window(3, 3))
    builder.output(x)
    model = builder.build()
    values = rng.integers(0, 256, (9, 6, 3, 3)).astype(np.uint8)
    arguments = kernels(runtime, resolver)
    _, (expected,) = resized(runtime, model, values.shape, values, **arguments)
    interpreter, (result,) = resized(
        runtime, model, values.shape, values, experimental_delegates=[load()], **arguments
    )
    np.testing.assert_array_equal(result, expected)
    (result,) = run_resized(interpreter, values[::-1].shape, values[::-1])
    np.testing.assert_array_equal(result, expected[::-1])


def test_a_delegate_destroyed_early_leaves_a_working_interpreter(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    interpreter.allocate_tensors()
    interpreter._delegates = None
    gc.collect()
    assert (invoke(interpreter) == 128).all()
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], (2, 7, 5, 3))
    interpreter.allocate_tensors()
    assert (invoke(interpreter) == 128).all()


def test_a_copied_delegate_is_destroyed_twice(runtime, load, compiler, model):
    loaded = load()
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[loaded])
    interpreter.allocate_tensors()
    twin = copy.copy(loaded)
    del loaded
    interpreter._delegates = None
    gc.collect()
    fresh = runtime.Interpreter(model_content=model, experimental_delegates=[twin])
    fresh.allocate_tensors()
    np.testing.assert_array_equal(invoke(fresh), invoke_on_cpu(runtime, model))
    del twin
    gc.collect()
    assert (invoke(interpreter) == 128).all()


def test_invoke_completes_while_another_thread_holds_the_gil(runtime, load, compiler, model):
    compiler.ops = ("CONV_2D", "DEPTHWISE_CONV_2D")
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    interpreter.allocate_tensors()
    output = interpreter.get_output_details()[0]["index"]
    holder = ctypes.PyDLL(None)  # keeps the GIL during the call
    started = threading.Event()

    def run() -> None:
        started.set()
        interpreter.invoke()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(30.0)  # the worker gives the GIL away only inside invoke
    try:
        interpreter.tensor(output)().fill(7)
        worker = threading.Thread(target=run)
        before = _native.submit_count()
        worker.start()
        started.wait()
        holder.usleep(300_000)
        submits = _native.submit_count() - before
        is_complete = bool((interpreter.tensor(output)() == 128).all())
    finally:
        sys.setswitchinterval(interval)
    worker.join()
    assert submits == 1
    assert is_complete


def test_threads_with_their_own_interpreters(runtime, load, compiler, model):
    loaded = load()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[loaded])
            interpreter.allocate_tensors()
            for _ in range(50):
                assert (invoke(interpreter) == 128).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_loading_by_path_finds_the_package_itself(runtime, tmp_path):
    """The package need not be on sys.path; a symlink to the library is followed."""
    link = tmp_path / "libteflon.so"
    link.symlink_to(delegate.library_path())
    script = (
        "import sys\n"
        f"from {runtime.__name__} import load_delegate\n"
        f"load_delegate({str(link)!r}, {{'device': 'null'}})\n"
        "import delegate\n"
        "print(delegate.__file__)\n"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", script],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == delegate.__file__
