"""The plugin in a real runtime: create and destroy, options, snapshot, partitions, failures."""

import ctypes
import errno
import gc
import logging
from dataclasses import replace

import numpy as np
import pytest

import delegate
from delegate import _native
from delegate.errors import DelegateError, LoweringError, Rule
from tests.native.inference import CONV_NODES, invoke, invoke_on_cpu
from tests.processes import python


def test_create_and_destroy_with_no_options(runtime, monkeypatch):
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "null")
    loaded = runtime.load_delegate(delegate.library_path())
    del loaded
    gc.collect()


without_npu = pytest.mark.skipif(_native.find_npu_node() != "", reason="this machine has an NPU")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"devise": "null"}, r"unknown option 'devise'.*valid: device, cores"),
        ({"timeout_ms": "soon"}, "'timeout_ms' is 'soon'"),
        pytest.param({"device": "rocket"}, "device rocket: no node of this driver was found",
                     marks=without_npu),
        # The simulator does not take the place of an NPU.
        pytest.param({"device": "auto", "strict": "true"}, "strict: no NPU was found",
                     marks=without_npu),
    ],
)  # fmt: skip
def test_options_that_are_refused(load, options, text):
    with pytest.raises(ValueError, match=text):
        load(**options)


@pytest.mark.parametrize(
    ("key", "count"), [(b"devise", 1), (b"device", 0xDEADBEEF_00000001)], ids=["unknown", "count"]
)
def test_a_host_without_a_reporter_gets_a_delegate(key: bytes, count: int):
    """One that claims nothing for an unknown option: such hosts crash on NULL. Of the number of
    options only the low half counts.
    """
    library = ctypes.PyDLL(delegate.library_path())
    library.tflite_plugin_create_delegate.restype = ctypes.c_void_p
    strings = ctypes.c_char_p * 1
    pointer = library.tflite_plugin_create_delegate(
        strings(key), strings(b"null"), ctypes.c_size_t(count), None
    )
    assert pointer
    for each in (pointer, pointer, None):
        library.tflite_plugin_destroy_delegate(ctypes.c_void_p(each))


def test_partitions_run_with_one_submit_each(delegated, model):
    interpreter = delegated(model)
    before = _native.submit_count()
    output = invoke(interpreter)
    assert _native.submit_count() == before + len(CONV_NODES)
    assert (output == 128).all()  # zeroed device memory
    assert output.shape == (1, 7, 5, 5)


def test_constants_of_the_snapshot_are_the_runtimes_memory(runtime, load, compiler, model):
    """tests/graph compares all of it with the file."""
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    (graph,) = compiler.graphs
    constants = [tensor for tensor in graph.tensors if tensor.constant is not None]
    assert len(constants) == 6
    for tensor in constants:
        assert np.shares_memory(tensor.constant, interpreter.tensor(tensor.index)())
        np.testing.assert_array_equal(tensor.constant, interpreter.get_tensor(tensor.index))


def test_preview_names_the_edges_without_constants(runtime, load, compiler, model):
    interpreter = runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    (graph,) = compiler.graphs
    for node in CONV_NODES:
        op = graph.nodes[node]
        assert graph.tensors[op.inputs[1]].constant is not None
    with pytest.raises(RuntimeError, match="only while preparing"):
        compiler.previews[0]([0])
    del interpreter


@pytest.mark.parametrize(
    "failure",
    [MemoryError(), OSError(errno.ENOMEM, "no"), ImportError("x.so: failed to map segment")],
)
def test_memory_that_runs_out_is_called_that(runtime, load, compiler, model, failure, caplog):
    compiler.fail = failure
    with caplog.at_level(logging.WARNING, "delegate"):
        runtime.Interpreter(model_content=model, experimental_delegates=[load()])
    assert "nothing delegated: memory ran out while the model was compiled" in caplog.text
    assert "internal error" not in caplog.text


@pytest.mark.parametrize("ops", [(), ("CONV_2D", "DEPTHWISE_CONV_2D"), ("DEPTHWISE_CONV_2D",)])
def test_any_choice_of_nodes(delegated, compiler, model, ops):
    compiler.ops = ops
    interpreter = delegated(model)
    before = _native.submit_count()
    invoke(interpreter)
    assert _native.submit_count() == before + (1 if ops else 0)


@pytest.mark.parametrize(
    "failure", [LoweringError(0, Rule("rule", "It must fit"), "too wide"), ZeroDivisionError("bug")]
)
def test_a_failing_compiler_means_cpu_and_a_logged_reason(
    runtime, delegated, compiler, model, failure, caplog
):
    expected = invoke_on_cpu(runtime, model)
    compiler.fail = failure
    with caplog.at_level(logging.WARNING, "delegate"):
        interpreter = delegated(model)
    np.testing.assert_array_equal(invoke(interpreter), expected)
    assert "nothing delegated" in caplog.text
    assert str(failure) in caplog.text


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


def swapped(partitions):
    """Programs that miss a tensor."""
    first, second = partitions
    first.program, second.program = second.program, first.program
    return partitions


def truncated(partitions):
    partitions[0].program = partitions[0].program[:-1]
    return partitions


def merged(partitions):
    """A partition that was not previewed."""
    partitions[0].partition = replace(partitions[0].partition, nodes=(0, 2))
    return partitions[:1]


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (swapped, "does not read tensor"),
        (truncated, "rk3588 delegate: program: "),
        (merged, "had not previewed"),
    ],
)
def test_partitions_that_are_wrong_are_an_error(delegated, compiler, model, spoil, text):
    compiler.spoil = spoil
    with pytest.raises(RuntimeError, match=text):
        delegated(model)


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
    result = python("-I", "-c", script, cwd=tmp_path, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == delegate.__file__
