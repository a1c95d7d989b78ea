"""Graphs of nothing but moves, as nobody exports them: they cost time that is in proportion."""

from __future__ import annotations

import time
from pathlib import Path

from delegate.compile.compiler import compile_model
from delegate.model.graph import DType, Quantization
from delegate.options import Options
from rk3588_conformance.builder import layers, moves
from rk3588_conformance.builder.model_builder import ModelBuilder

QUANTIZATION = Quantization((0.1,), (3,))
DOUBLINGS = 17
RESHAPES = 400
SECONDS = 5


def _delegated(path: Path, builder: ModelBuilder, y: int) -> int:
    path.write_bytes(builder.build(y))
    started = time.process_time()
    result = compile_model(path, Options.from_mapping({"numerics": "exact", "deny_ops": ""}, {}))
    assert time.process_time() - started < SECONDS
    return sum(len(item.partition.delegated) for item in result.partitions)


def test_a_tensor_beside_itself_again_and_again(tmp_path: Path) -> None:
    """Boxes double with every node: those of the last are never counted out."""
    builder = ModelBuilder()
    x = builder.input("x", (1, 1, 1, 1), DType.INT8, QUANTIZATION)
    y = layers.add(builder, x, x, output_scale=0.1, output_zero_point=3)
    for _ in range(DOUBLINGS):
        y = moves.concatenation(builder, (y, y), 3)
    assert _delegated(tmp_path / "m.tflite", builder, y) == DOUBLINGS + 1


def test_reshapes_behind_one_another_without_end(tmp_path: Path) -> None:
    builder = ModelBuilder()
    x = builder.input("x", (1, 4, 4, 16), DType.INT8, QUANTIZATION)
    y = x
    for number in range(RESHAPES):
        y = moves.reshape(builder, y, ((1, 4, 4, 16), (1, 2, 8, 16))[number % 2])
    y = layers.add(builder, y, y, output_scale=0.1, output_zero_point=3)
    assert _delegated(tmp_path / "m.tflite", builder, y) == RESHAPES + 1
