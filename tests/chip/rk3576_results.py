"""Programs for RK3576: run by both paths of the simulator against the reference kernels."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from delegate.chip.rk3576 import RK3576
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import compile_model
from delegate.errors import SimulatorFault
from delegate.npu.program_reader import parse
from delegate.options import Options
from tests.chip.test_second_chip import reference, simulate

FOR_RK3576 = replace(Options(numerics="exact"), chip="rk3576")


def check_results(model: bytes, tmp_path: Path, *, most_off: int = 1) -> None:
    """Within a step of the reference, the literal path's, and no program of RK3588."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    result = compile_model(path, FOR_RK3576)
    assert result.rejections == ()
    (compiled,) = result.partitions
    program = parse(compiled.program)
    values = reference(path, result.graph, tmp_path)
    given = [values[b.tensor].reshape(b.shape) for b in program.inputs]
    (found,) = simulate(compiled.program, given, RK3576)
    expected = values[program.outputs[0].tensor].reshape(found.shape)
    assert np.abs(found.astype(np.int16) - expected.astype(np.int16)).max() <= most_off
    np.testing.assert_array_equal(*simulate(compiled.program, given, RK3576, plain=True), found)
    with pytest.raises(SimulatorFault):
        simulate(compiled.program, given, RK3588)
