"""Our detector plugin inside stand-ins for Frigate's modules: the same names and signatures as in
blakeblackshear/frigate at e3fa7018 (detectors/detection_api.py, detectors/detector_config.py).
"""

import importlib.util
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rk3588_vision import FRIGATE_PLUGIN
from tests.cli.odd_models import constant_detector
from tests.hosts.frigate_detector import labelled, load_labels, read_image
from tests.hosts.test_frigate import image_label_maps
from tests.shared_folder import MODELS, SHARED, needs_models

Image = pytest.importorskip("PIL.Image")


class BaseDetectorConfig:
    """A stand-in for Frigate's pydantic model, which keeps unknown fields; its fields alone."""

    def __init__(self, **fields: Any) -> None:
        self.model = None
        self.model_path = None
        for name in type(self).__annotations__:
            setattr(self, name, getattr(type(self), name, None))
        for name, value in fields.items():
            setattr(self, name, value)


class DetectionApi(ABC):
    type_key: str

    @abstractmethod
    def __init__(self, detector_config: BaseDetectorConfig) -> None:
        self.detector_config = detector_config
        self.thresh = 0.4
        self.height = detector_config.model.height
        self.width = detector_config.model.width

    @abstractmethod
    def detect_raw(self, tensor_input: np.ndarray) -> np.ndarray:
        pass


def field(default: Any = None, default_factory: Any = None, **_: Any) -> Any:
    return default if default_factory is None else default_factory()


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    modules = {
        "frigate": {},
        "frigate.detectors": {},
        "frigate.detectors.detection_api": {"DetectionApi": DetectionApi},
        "frigate.detectors.detector_config": {"BaseDetectorConfig": BaseDetectorConfig},
        "pydantic": {"ConfigDict": dict, "Field": field},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    for name in ("DEVICE", "LOG_LEVEL"):
        monkeypatch.delenv(f"RK3588_DELEGATE_{name}", raising=False)
    # As Frigate does: a file in its own folder, not a module of this package.
    found = importlib.util.spec_from_file_location("frigate_plugin_rk3588", FRIGATE_PLUGIN)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def config(plugin: ModuleType, path: Path, h: int, w: int, **more: Any) -> Any:
    model = SimpleNamespace(path=str(path), height=h, width=w)
    options = {"device": "simulator", "log_level": "error"}
    return plugin.Rk3588DetectorConfig(type="rk3588", model=model, options=options, **more)


@needs_models
@pytest.mark.parametrize(
    ("file", "side", "map_name"),
    [
        ("yolov8n_224_int8.tflite", 224, "labelmap/coco-80.txt"),
        ("yolox_nano_320_int8_per_channel.tflite", 320, "labelmap/coco-80.txt"),
        ("ssdlite_mobiledet_coco_qat_postprocess.tflite", 320, "labelmap.txt"),
    ],
)
def test_a_dog_and_a_cat_are_called_by_their_names(
    plugin: ModuleType, tmp_path: Path, file: str, side: int, map_name: str
) -> None:
    detector = plugin.Rk3588(config(plugin, MODELS / file, side, side))
    assert detector.type_key == "rk3588"
    labels = load_labels(image_label_maps(tmp_path / "root") / map_name)
    region = tmp_path / "region.png"  # square, as Frigate cuts them
    with Image.open(SHARED / "images" / "pets.jpg") as picture:
        picture.convert("RGB").crop((280, 155, 500, 375)).save(region)
    for path, wanted in ((region, "dog"), (SHARED / "images" / "cat.bmp", "cat")):
        rows = detector.detect_raw(read_image(path, (1, side, side, 3)))
        assert rows.shape == (20, 6)
        assert rows.dtype == np.float32
        assert labelled(rows, labels)[0][0] == wanted
        assert (np.diff(rows[:, 1]) <= 0).all(), "best first, as Frigate stops at the first weak"
        sure = rows[rows[:, 1] > 0]
        assert ((sure[:, 2:] >= 0) & (sure[:, 2:] <= 1)).all()
        assert (sure[:, 4] > sure[:, 2]).all()
        assert (sure[:, 5] > sure[:, 3]).all()


def test_rows_are_class_score_and_box_by_rows_first(plugin: ModuleType, tmp_path: Path) -> None:
    """The constant detector sees class 1 with 0.75 at x 0.25..0.75 and y 0.125..0.375."""
    path = tmp_path / "constant.tflite"
    path.write_bytes(constant_detector())
    detector = plugin.Rk3588(config(plugin, path, 64, 64))
    rows = detector.detect_raw(np.full((1, 64, 64, 3), 90, np.uint8))
    np.testing.assert_allclose(rows[0], [1, 0.75, 0.125, 0.25, 0.375, 0.75], atol=0.01)
    assert not rows[1:].any()


def test_what_cannot_be_is_a_value_error_with_the_remedy(
    plugin: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "constant.tflite"
    path.write_bytes(constant_detector())
    with pytest.raises(
        ValueError, match=r"takes 64 x 64 pixels .*\(model.width and model.height\)"
    ):
        plugin.Rk3588(config(plugin, path, 320, 320))
    with pytest.raises(ValueError, match="no such file"):
        plugin.Rk3588(config(plugin, tmp_path / "none.tflite", 64, 64))
    with pytest.raises(ValueError, match="do not fit the decoder ssd"):
        plugin.Rk3588(config(plugin, path, 64, 64, decoder="ssd"))
    detector = plugin.Rk3588(config(plugin, path, 64, 64))
    with pytest.raises(ValueError, match=r"leave model\.input_dtype out"):
        detector.detect_raw(np.zeros((1, 64, 64, 3), np.float32))
    uncertain = tmp_path / "uncertain.tflite"
    uncertain.write_bytes(constant_detector(classes=4))
    with pytest.raises(ValueError, match="fit more than one head"):
        plugin.Rk3588(config(plugin, uncertain, 64, 64))


def test_a_frigate_without_the_package_says_what_to_install(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "MISSING", "No module named 'delegate'")
    config = plugin.Rk3588DetectorConfig(model=SimpleNamespace(path="m", width=8, height=8))
    with pytest.raises(ValueError, match=r"rk3588-delegate.*No module named 'delegate'"):
        plugin.Rk3588(config)
