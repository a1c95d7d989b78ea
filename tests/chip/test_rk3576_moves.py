"""Tests moves of data on RK3576: copies by the DPU alone and convolutions that move. The suite's
models have maxima around them, which this chip has not; here these are functions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delegate
from delegate.compile.compiler import compile_model
from delegate.host.runtimes import find_runtime
from delegate.options import Options
from rk3588_conformance.builder.functions import function
from rk3588_conformance.execution import Prepared, prepare
from rk3588_conformance.families import case_names
from rk3588_conformance.net import Net

FAMILIES = ("Joins", "Cuts", "Splits", "Packs", "UnevenSplits", "Reshapes", "Reorders")


def _clamped(builder, x):
    """A tensor of the same quantisation that the NPU makes, of which a quarter is clamped."""
    return function(builder, "RELU", (x,), builder.spec(x).quantization)


def _results(case: Prepared, path, delegates):
    interpreter = find_runtime().interpreter(path, delegates=delegates, reference_kernels=True)
    for index, values in case.inputs.items():
        interpreter.set_tensor(index, values)
    interpreter.invoke()
    return [interpreter.get_tensor(o["index"]) for o in interpreter.get_output_details()]


@pytest.mark.parametrize("family", FAMILIES)
def test_moves_are_equal_to_the_reference(family, monkeypatch, tmp_path):
    monkeypatch.setattr(Net, "computed", _clamped)
    cases = list(case_names(None, f"{family}.Op/"))
    cases = cases[:: -(-len(cases) // 16)]
    path = tmp_path / "model.tflite"
    taken = 0
    for name in cases:
        case = prepare(name, None)
        path.write_bytes(case.model)
        options = {"chip": "rk3576", "deny_ops": ""}
        taken += (
            compile_model(path, replace(Options(numerics="exact"), **options)).delegated_nodes > 0
        )
        loaded = delegate.load_delegate(device="simulator", verify="off", strict="false", **options)
        for found, expected in zip(
            _results(case, path, [loaded]), _results(case, path, []), strict=True
        ):
            np.testing.assert_array_equal(found, expected, err_msg=name)
    assert taken >= len(cases) // 2
