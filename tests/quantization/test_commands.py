"""quantize and accuracy on the command line: errors in one line, nothing half written. What the
quantiser would give is a stand-in here; test_with_the_package.py has the real one.
"""

import importlib
import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pytest

from delegate.cli import quantize as command
from delegate.errors import DelegateError
from rk3588_vision.quantization import calibration, mixed, quantizer_package
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.ranges import Range
from tests.cli.conftest import LABELS, Run, run
from tests.cli.conftest import MODEL as DIGITS
from tests.quantization.float_models import chain, save_pictures, two_heads

__all__ = ["run"]  # the fixture

pytest.importorskip("PIL")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "float.tflite").write_bytes(chain())
    save_pictures(tmp_path / "pictures", 3)
    (tmp_path / "empty").mkdir()
    return tmp_path


class StandIn:
    """Gives a model with other weights, or the float model with the layers wanted in float."""

    def __init__(self) -> None:
        self.calls: list[set[int]] = []

    def __call__(
        self, model: FloatModel, ranges: Mapping[int, Range], floats: Collection[int] = ()
    ) -> bytes:
        assert set(model.activations()) == set(ranges)
        self.calls.append(set(floats))
        error = 0.0 if 1 in floats else 0.2
        weights = np.random.default_rng(4).normal(0, 0.3, (4, 3, 3, 4)).astype(np.float32)
        return chain(weights=weights + np.float32(error), bias=np.zeros(4, np.float32))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path) -> StandIn:
    made = StandIn()
    monkeypatch.setattr(command, "load", lambda: None)
    monkeypatch.setattr(command, "quantize", made)
    monkeypatch.setattr(mixed, "quantize", made)
    monkeypatch.setattr(calibration, "quantize", made)
    weights = np.random.default_rng(4).normal(0, 0.3, (4, 3, 3, 4)).astype(np.float32)
    (folder / "float.tflite").write_bytes(chain(weights=weights, bias=np.zeros(4, np.float32)))
    return made


def test_without_the_package_the_error_says_what_to_install(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("ai_edge_quantizer")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer", None)
    output = folder / "int8.tflite"
    outcome = run("quantize", folder / "float.tflite", folder / "pictures", "-o", output)
    outcome.assert_refused("ai-edge-quantizer", "pip install 'rk3588-delegate[quantize]'", code=1)
    assert not output.exists()


def test_a_package_that_does_not_load_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ImportError("numpy.core.multiarray failed to import")

    monkeypatch.setattr(importlib, "import_module", broken)
    with pytest.raises(DelegateError, match=r"does not load: numpy\.core.*pip install"):
        quantizer_package.load()


def test_bad_input_is_refused_in_one_line(run: Run, folder: Path, stand_in: StandIn) -> None:
    model, pictures, output = (folder / n for n in ("float.tflite", "pictures", "int8.tflite"))
    quantize = ("quantize", model, pictures, "-o", output)
    run("quantize", LABELS, pictures, "-o", output).assert_refused(str(LABELS), "TFL3")
    run("quantize", folder / "no.tflite", pictures, "-o", output).assert_refused("no such file")
    run("quantize", DIGITS, pictures, "-o", output).assert_refused("quantised already")
    run("quantize", model, folder / "empty", "-o", output).assert_refused("no image files")
    run("quantize", model, folder / "no.png", "-o", output).assert_refused("no such image")
    run("quantize", model, LABELS, "-o", output).assert_refused("not an image")
    run("quantize", model, pictures, "-o", folder).assert_refused("Is a directory")
    run("quantize", model, pictures, "-o", folder / "no" / "x.tflite").assert_refused("No such")
    run("quantize", model, pictures, "-o", "/dev/full").assert_refused("no plain file")
    run("quantize", model, pictures, "-o", model).assert_refused("is the float model itself")
    run(*quantize, "--mixed", 0).assert_refused("not a positive number")
    run(*quantize, "--decoder", "yolov8").assert_refused("do not fit the decoder yolov8")
    run(*quantize, "--device", "nothing").assert_refused("nothing")
    assert not output.exists()
    assert not list(folder.glob(".*"))
    assert model.read_bytes() != b""


def test_accuracy_refuses_bad_input_in_one_line(run: Run, folder: Path) -> None:
    model, pictures = folder / "float.tflite", folder / "pictures"
    accuracy = ("accuracy", model, pictures, "--reference", model)
    run("accuracy", LABELS, pictures, "--reference", model).assert_refused("TFL3")
    run("accuracy", model, pictures, "--reference", DIGITS).assert_refused("quantised already")
    run("accuracy", DIGITS, pictures, "--reference", model).assert_refused("no layer has the name")
    run("accuracy", model, folder / "empty", "--reference", model).assert_refused("no image files")
    run(*accuracy, "--node-data", folder / "no").assert_refused("no such folder")
    run("accuracy", model, pictures).assert_refused("--reference")


def test_an_interrupted_command_writes_nothing(
    run: Run, folder: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> bytes:
        raise KeyboardInterrupt

    output = folder / "int8.tflite"
    output.write_bytes(b"before")
    monkeypatch.setattr(command, "quantize", interrupted)
    outcome = run("quantize", folder / "float.tflite", folder / "pictures", "-o", output)
    outcome.assert_refused("interrupted", code=130)
    assert output.read_bytes() == b"before"
    assert sorted(path.name for path in folder.iterdir()) == [
        "empty", "float.tflite", "int8.tflite", "pictures",
    ]  # fmt: skip


def test_what_gains_stays_in_float(run: Run, folder: Path, stand_in: StandIn) -> None:
    output = folder / "mixed.tflite"
    words = ("quantize", folder / "float.tflite", folder / "pictures", "-o", output)
    plain = run(*words, "--json").json
    assert plain["mixed"] is None
    assert plain["pictures"] == 3
    found = run(*words, "--mixed", 2, "--json").json
    assert found["mixed"]["int8_mean_snr_db"] == pytest.approx(plain["mean_snr_db"])
    assert found["mixed"]["mixed_mean_snr_db"] == found["mean_snr_db"] > 100
    (kept,) = found["mixed"]["kept"]  # with it the outputs are exact: no other one gains
    assert kept["ops"].count("CONV_2D") >= 2
    assert set() in stand_in.calls
    assert "in float: 1 of" in run(*words, "--mixed", 2).out


def test_gains_of_nothing_keep_int8(
    run: Run, folder: Path, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "float.tflite").write_bytes(two_heads())
    for module in (mixed, calibration):
        monkeypatch.setattr(module, "quantize", lambda *_: two_heads(largest=9.0))
    words = ("quantize", folder / "float.tflite", folder / "pictures", "-o", folder / "m.tflite")
    found = run(*words, "--mixed", "--json").json
    assert found["mixed"]["kept"] == []
    assert found["mixed"]["tried"] > 0
    assert "in float: 0 of" in run(*words, "--mixed").out


def test_accuracy_prints_and_exports(run: Run, folder: Path) -> None:
    explorer = folder / "explorer"
    explorer.mkdir()
    (folder / "other.tflite").write_bytes(chain())
    words = ("accuracy", folder / "other.tflite", folder / "pictures", "--reference",
             folder / "float.tflite", "--node-data", explorer)  # fmt: skip
    text = run(*words).out
    assert "exact" in text
    assert "3 compared, 0 without a counterpart" in text
    document = run(*words, "--json").json
    assert [layer["name"] for layer in document["layers"]] == ["first", "second", "third"]
    assert document["outputs"][0]["snr_db"] is None
    assert document["outputs"][0]["equal"]
    written = {path.name for path in explorer.iterdir()}
    quantities = ("cosine", "noise_added_percent", "npu_us", "snr_db")
    assert written == {f"other.{what}.json" for what in quantities}
    times = json.loads((explorer / "other.npu_us.json").read_text())
    assert set(times) == {"results", "gradient"}
