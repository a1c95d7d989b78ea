"""Delegates and interpreters that outlive each other, are copied, and share a process."""

from __future__ import annotations

import copy
import gc
import threading

import numpy as np

from delegate import _native
from tests.native.inference import invoke, invoke_on_cpu, seen_beside_invoke


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
    interpreter.tensor(output)().fill(7)
    before = _native.submit_count()

    def seen() -> tuple[int, bool]:
        is_complete = bool((interpreter.tensor(output)() == 128).all())
        return _native.submit_count() - before, is_complete

    submits, is_complete = seen_beside_invoke(interpreter, 300_000, seen)
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
