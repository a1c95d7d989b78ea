"""Tests how ``compile`` tells the bounds of nodes in fp16."""

import json
from pathlib import Path

import numpy as np
import pytest

from delegate.cli import main
from delegate.model.graph import DType
from delegate.ops.conv_2d import ConvOptions
from delegate.ops.mul import MulOptions
from rk3588_conformance.builder import Net


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A sum of 16 channels times 1, and the square of it."""
    builder = Net("bounded")
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


def test_a_partition_tells_the_widest_bound_of_its_nodes(model, capsys):
    """The sum rounds five times to fp32 and once to fp16, the product once to each."""
    found = bounds(model, capsys)
    assert set(found) == {"per_node"}
    relative = (1 + 2**-24) ** 3 * (1 + 2**-11) - 1
    assert found["per_node"] == f"within {relative:.2g} of the terms' magnitudes"
    assert main([*COMMAND, str(model)]) == 0
    assert f"fp16: every node {found['per_node']}" in capsys.readouterr().out


def test_a_partition_of_integers_tells_none(model, capsys):
    assert main(["compile", str(model), "--json", "--device", "simulator"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == []
