"""``compile --explain``."""

import numpy as np

from delegate.cli import main
from rk3588_conformance.builder import conv_model


def test_compile_says_why_a_layer_is_tiled_as_it_is(tmp_path, capsys):
    path = tmp_path / "model.tflite"
    path.write_bytes(conv_model(np.random.default_rng(1), 32, 40, 3, 24, 3, 3, 2, 2))
    assert main(["compile", str(path), "--explain"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "tiling (chosen by estimated time" in text
    assert "folded by the host (2 x 2 x 3 as 12 channels)" in text
    assert "banks" in text
