"""Frigate's loading path and detector loop, in a process of their own."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delegate
from delegate.model.tflite_reader import model_details
from tests.hosts.conftest import clean_environment, compiled
from tests.hosts.frigate_detector import (
    Detector,
    detect_in_process,
    detections,
    labelled,
    load_labels,
    read_image,
    runtime,
)
from tests.inferences import assert_same
from tests.processes import python
from tests.shared_folder import MODELS, SHARED, needs_models

pytest.importorskip("PIL")
MODEL = MODELS / "ssdlite_mobiledet_coco_qat_postprocess.tflite"
IMAGES = ["pets.jpg", "cat.bmp", "bird.bmp"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "frigate.md"


def image_label_maps(folder: Path) -> Path:
    """The label maps of Frigate's image below ``folder``, with COCO's own names.

    Its /labelmap.txt has the numbers of COCO's annotations from 0 (17 dog, 18 horse), its
    /labelmap/coco-80.txt those of COCO's names in order (16 dog, 17 horse): labelmap.txt and
    docker/main/rootfs/labelmap/coco-80.txt of blakeblackshear/frigate at e3fa7018.
    """
    (folder / "labelmap").mkdir(parents=True)
    for name, source in (
        ("labelmap.txt", "coco_labels.txt"),
        ("labelmap/coco-80.txt", "coco80_labels.txt"),
    ):
        names = (SHARED / "images" / source).read_text().splitlines()
        text = "".join(f"{number}  {line}\n" for number, line in enumerate(names))
        (folder / name).write_text(text)
    return folder


def page_config() -> dict[str, dict[str, Any]]:
    """The config.yml of the page, as a user copies it."""
    yaml = pytest.importorskip("yaml")
    lines = PAGE.read_text().split("`config/config.yml`:\n\n")[1].splitlines()
    block = itertools.takewhile(lambda line: line.startswith("    "), lines)
    config: dict[str, dict[str, Any]] = yaml.safe_load("\n".join(block))
    return config


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
    assert_same(detect_in_process(link, str(model), images), expected)


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
    ran = python(
        script, library, model, picture, cwd=tmp_path, env=clean_environment(), timeout=120
    )
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


@needs_models
def test_labels_of_the_page_are_what_is_on_the_picture(link, tmp_path, monkeypatch):
    """Neither numbers nor the CPU decide: a dog has to be called dog."""
    monkeypatch.delenv("RK3588_DELEGATE_DEVICE", raising=False)
    config = page_config()
    assert config["detectors"]["npu"] == {"type": "teflon_tfl"}
    model = config["model"]
    root = image_label_maps(tmp_path / "root")
    labels = load_labels(root / str(model["labelmap_path"]).lstrip("/"))
    shape = (1, int(model["height"]), int(model["width"]), 3)
    pictures = [read_image(SHARED / "images" / name, shape) for name in ("pets.jpg", "cat.bmp")]
    found = detect_in_process(link, str(MODEL), pictures)
    assert [labelled(rows, labels)[0][0] for rows in found] == ["dog", "cat"]


@needs_models
def test_uint8_is_what_frigate_feeds():
    """The page's model takes it; int8 inputs and YOLO's outputs are refused as the page says."""
    assert model_details(MODEL)[0][0]["dtype"] == np.uint8
    int8 = Detector(None, str(MODELS / "yolov8n_224_int8.tflite"))
    with pytest.raises(ValueError, match="type UINT8 but expected type INT8"):
        int8.detect(np.zeros((1, 224, 224, 3), np.uint8))
    yolo = Detector(None, str(MODELS / "yolov5n_640_int8_per_channel.tflite"))
    with pytest.raises((IndexError, ValueError), match=r"index out of range|not enough values"):
        yolo.detect(np.zeros((1, 640, 640, 3), np.uint8))
