"""Programs for RK3576: run by both paths of the simulator against the reference kernels."""

from dataclasses import replace

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.errors import SimulatorFault
from delegate.npu.program_reader import parse
from delegate.npu.program_types import Program
from delegate.options import Options
from tests.chip.test_second_chip import simulate
from tests.inferences import outputs
from tests.lower.reference import random_inputs

FOR_RK3576 = replace(Options(numerics="exact"), chip="rk3576")


def check_results(model: bytes, *, most_off: int = 1) -> tuple[Program, np.ndarray, np.ndarray]:
    """Within a step of the reference, the literal path's, and no program of RK3588. Return the
    program, what it computes and what the reference kernels do.
    """
    result = compile_model(model, FOR_RK3576)
    assert result.rejections == ()
    (compiled,) = result.partitions
    program = parse(compiled.program)
    inputs = result.graph.inputs
    arrays = random_inputs(result.graph, inputs, np.random.default_rng(7))
    (expected,) = outputs(model, *arrays)
    values = dict(zip(inputs, arrays, strict=True))
    given = [values[b.tensor].reshape(b.shape) for b in program.inputs]
    (found,) = simulate(compiled.program, given, RK3576)
    expected = expected.reshape(found.shape)
    assert np.abs(found.astype(np.int16) - expected.astype(np.int16)).max() <= most_off
    np.testing.assert_array_equal(*simulate(compiled.program, given, RK3576, plain=True), found)
    with pytest.raises(SimulatorFault):
        simulate(compiled.program, given, RK3588)
    return program, found, expected
