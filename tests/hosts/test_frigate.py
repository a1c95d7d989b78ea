"""Frigate's loading path and detector loop, in a process of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import delegate
from tests.hosts.conftest import clean_environment, compiled
from tests.hosts.frigate_detector import (
    Detector,
    detect_in_process,
    detections,
    read_image,
    runtime,
)
from tests.shared_folder import MODELS, SHARED, needs_models

pytest.importorskip("PIL")
MODEL = MODELS / "ssdlite_mobiledet_coco_qat_postprocess.tflite"
IMAGES = ["pets.jpg", "cat.bmp", "bird.bmp"]


@pytest.fixture(scope="module", autouse=True)
def some_runtime():
    try:
        runtime()
    except ModuleNotFoundError:
        pytest.skip("Frigate takes ai_edge_litert or tflite_runtime; neither is installed here")


@pytest.fixture
def link(tmp_path) -> str:
    """The library where Frigate looks for it, below a temporary folder."""
    place = tmp_path / "usr" / "lib" / "teflon" / "libteflon.so"
    place.parent.mkdir(parents=True)
    place.symlink_to(delegate.library_path())
    return str(place)


@needs_models
@pytest.mark.parametrize("prepare", ["as it is", "compiled"])
def test_detections_are_those_of_the_reference_kernels(link, tmp_path, monkeypatch, prepare):
    for name in ("DEVICE", "LOG_LEVEL"):
        monkeypatch.delenv(f"RK3588_DELEGATE_{name}", raising=False)
    cpu = Detector(None, str(MODEL), reference_kernels=True)
    images = [read_image(SHARED / "images" / name, cpu.input_shape) for name in IMAGES]
    expected = [cpu.detect(image) for image in images]
    assert sum(int((rows[:, 1] > 0).sum()) for rows in expected) >= 3
    model = MODEL
    if prepare == "compiled":
        model = tmp_path / "compiled.tflite"
        model.write_bytes(compiled(MODEL))
    for ours, theirs in zip(detect_in_process(link, str(model), images), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@needs_models
def test_library_alone_runs_a_compiled_model(tmp_path):
    """One file at Frigate's path and a compiled model: the package need not be installed."""
    library = tmp_path / "libteflon.so"
    shutil.copy(delegate.library_path(), library)
    model = tmp_path / "compiled.tflite"
    model.write_bytes(compiled(MODEL))
    # Before the installed package on the path of the script below, and of its detector process.
    (tmp_path / "delegate.py").write_text("raise ImportError('not installed')\n")
    script = tmp_path / "detector.py"
    shutil.copy(Path(__file__).with_name("frigate_detector.py"), script)
    picture = SHARED / "images" / "cat.bmp"
    ran = subprocess.run(
        [sys.executable, str(script), str(library), str(model), str(picture)],
        cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    cpu = Detector(None, str(MODEL), reference_kernels=True)
    expected = cpu.detect(read_image(picture, cpu.input_shape))
    assert json.loads(ran.stdout)["detections"] == detections(expected)


@needs_models
def test_bad_environment_is_a_value_error(link, monkeypatch):
    monkeypatch.setenv("RK3588_DELEGATE_DEVICE", "npu")
    image = np.zeros((1, 320, 320, 3), np.uint8)
    with pytest.raises(ValueError, match="RK3588_DELEGATE_DEVICE is 'npu'"):
        detect_in_process(link, str(MODEL), [image])
