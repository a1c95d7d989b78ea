"""What ``compile`` says of bounds in fp16."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from delegate.cli import main
from delegate.model.graph import DType
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder.model_builder import ModelBuilder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sum of 16 channels times 1, and the square of it."""
    builder = ModelBuilder("bounded")
    x = builder.input("x", (1, 4, 5, 16), DType.FLOAT32)
    weights = builder.constant("w", np.ones((8, 1, 1, 16), np.float32))
    bias = builder.constant("b", np.zeros(8, np.float32))
    y, z = (builder.tensor(name, (1, 4, 5, 8), DType.FLOAT32) for name in ("sum", "square"))
    builder.operator("CONV_2D", (x, weights, bias), (y,), ConvOptions())
    builder.operator("MUL", (y, y), (z,), MulOptions())
    builder.output(y)
    builder.output(z)
    path = tmp_path / "bounded.tflite"
    path.write_bytes(builder.build())
    return path


COMMAND = ["compile", "--layers", "--device", "simulator", "-O", "float=fp16"]


def bounds(model: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    assert main([*COMMAND, str(model), "--json", *more]) == 0
    (partition,) = json.loads(capsys.readouterr().out)["partitions"]
    found: dict[str, object] = partition["fp16"]
    return found


def test_outputs_have_bounds_along_the_graph(model, capsys):
    found = bounds(model, capsys)
    assert found["inputs"] == [-1, 1]
    assert found["tensors"] == found["tensors_bounded"] == 2
    total, square = found["outputs"]
    assert [total["name"], total["low"], total["high"]] == ["sum", -16, 16]
    # Inputs are 2^-12 off at most, 16 of them; then the sum is rounded, which is 16 and what these
    # errors add at most.
    assert 2**-8 + 2**-7 <= total["within"] <= (2**-8 + 2**-7) * 1.01
    assert square["within"] == pytest.approx(32 * total["within"] + 2**-3, rel=0.01)


def test_where_fp16_may_not_hold_the_values_there_is_none(model, capsys):
    found = bounds(model, capsys, "--inputs", "0", "100")
    assert found["inputs"] == [0, 100]
    assert found["tensors_bounded"] == 1
    assert [output["within"] is None for output in found["outputs"]] == [False, True]
    assert main([*COMMAND, str(model), "--inputs", "0", "100"]) == 0
    text = capsys.readouterr().out
    assert "for inputs from 0 to 100 (--inputs): 1 of 2 tensors" in text
    assert "square: no bound" in text


@pytest.mark.parametrize("given", [("1", "0"), ("0", "1e6"), ("nan", "1")])
def test_other_ranges_are_refused(model, capsys, given):
    assert main([*COMMAND, str(model), "--inputs", *given]) != 0
    assert "--inputs" in capsys.readouterr().err
