"""A model is compared with its float model layer by layer; the worst layer is found."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from delegate.cli.accuracy import error_data
from delegate.errors import ModelError
from rk3588_vision.detection.candidate import Hints
from rk3588_vision.quantization.float_model import FloatModel
from rk3588_vision.quantization.layer_errors import BEST_DB, Accuracy, Distance, compare_layers
from rk3588_vision.quantization.picture_input import PictureInput
from tests.cli.conftest import MODEL as DIGITS
from tests.cli.odd_models import two_input_model
from tests.quantization.float_models import chain, classifier, save_pictures, two_heads

pytest.importorskip("PIL")


def test_distances_are_those_of_the_middle_picture() -> None:
    rng = np.random.default_rng(1)
    wanted = rng.normal(size=(3, 500)).astype(np.float32)
    noise = rng.normal(size=wanted.shape).astype(np.float32)
    given = wanted + noise * np.array([[0.1], [0.01], [30.0]], np.float32)
    distance = Distance()
    for a, b in zip(wanted, given, strict=True):
        distance.add(a, b)
    power, error = np.square(wanted[0]).sum(), np.square(wanted[0] - given[0]).sum()
    assert distance.snr_db == pytest.approx(10 * np.log10(power / error), abs=1e-4)
    cosine = (wanted[0] * given[0]).sum() / np.sqrt(power * np.square(given[0]).sum())
    assert distance.cosine == pytest.approx(float(cosine), abs=1e-6)
    assert distance.worst == pytest.approx(np.abs(wanted - given).max())


def test_distances_of_zeros_and_equal_tensors() -> None:
    one, zero = np.ones(4, np.float32), np.zeros(4, np.float32)
    same, silent, noisy = Distance(), Distance(), Distance()
    same.add(one, one)
    silent.add(zero, zero)
    noisy.add(zero, one)
    assert (same.snr_db, same.cosine, same.noise_share) == (math.inf, 1.0, 0.0)
    assert (silent.snr_db, silent.cosine) == (math.inf, 1.0)
    assert (noisy.snr_db, noisy.cosine, noisy.noise_share) == (-math.inf, 0.0, math.inf)


def compared(tmp_path: Path, reference: bytes, model: bytes) -> Accuracy:
    paths = [tmp_path / name for name in ("float.tflite", "other.tflite")]
    for path, content in zip(paths, (reference, model), strict=True):
        path.write_bytes(content)
    prepared = PictureInput.of(paths[0], Hints())
    pictures = save_pictures(tmp_path / "pictures", 3)
    return compare_layers(FloatModel.read(paths[0]), paths[1], pictures, prepared)


def test_a_model_is_equal_to_itself(tmp_path: Path) -> None:
    found = compared(tmp_path, two_heads(), two_heads())
    assert found.mean_db == BEST_DB
    assert found.unmatched == ()
    assert {layer.adds for layer in found.layers} == {0.0}


def test_the_layer_that_is_wrong_is_ranked_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    weights = rng.normal(0, 0.3, (4, 3, 3, 4)).astype(np.float32)
    bias = np.zeros(4, np.float32)
    wrong = weights + rng.normal(0, 0.1, weights.shape).astype(np.float32)
    found = compared(tmp_path, chain(weights=weights, bias=bias), chain(weights=wrong, bias=bias))
    assert [layer.name for layer in found.layers] == ["first", "second", "third"]
    worst = found.worst_first()[0]
    assert (worst.name, worst.node, worst.op) == ("second", 1, "CONV_2D")
    first, second, third = found.layers
    assert first.adds == 0.0
    assert second.adds > max(third.adds, 0.01)
    assert first.distance.worst == 0.0
    assert third.inputs_db == second.distance.snr_db < 20
    assert found.mean_db == third.distance.snr_db


def test_models_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="must be the float model that it was made from"):
        compared(tmp_path, two_heads(), DIGITS.read_bytes())
    with pytest.raises(ModelError, match="has 2 inputs"):
        compared(tmp_path, two_heads(), two_input_model())


def test_node_data_has_a_number_for_every_layer(tmp_path: Path) -> None:
    found = compared(tmp_path, two_heads(), two_heads(largest=9.0))
    documents = {name: json.loads(content) for name, content in error_data(found).items()}
    assert set(documents) == {"snr_db", "cosine", "noise_added_percent"}
    names = {layer.name for layer in found.layers}
    for document in documents.values():
        assert set(document["results"]) == names
        assert [stop["stop"] for stop in document["gradient"]] == [0, 1]
    large = next(layer for layer in found.layers if layer.name == "large")
    assert documents["snr_db"]["results"]["large"]["value"] == large.distance.snr_db
    assert documents["snr_db"]["results"]["small"]["value"] == BEST_DB  # JSON has no infinity


@pytest.mark.parametrize(
    ("hints", "ends"),
    [(Hints(), (-1.0, 1.0)), (Hints(mean=0.0, std=255.0), (0.0, 1.0)),
     (Hints(mean=255.0, std=-255.0), (0.0, 1.0))],
)  # fmt: skip
def test_the_input_has_the_range_of_all_pixels(
    tmp_path: Path, hints: Hints, ends: tuple[float, float]
) -> None:
    path = tmp_path / "float.tflite"
    path.write_bytes(two_heads())
    prepared = PictureInput.of(path, hints)
    assert prepared.pixel_range() == ends
    details = {"name": "image", "shape": (1, 4, 5, 3), "dtype": np.float32, "quantization": (0, 0)}
    values = prepared.sample(save_pictures(tmp_path / "pictures", 1)[0], details)
    assert ends[0] <= values.min() < values.max() <= ends[1]
    assert "as classify" in str(prepared)


def test_a_classifier_sees_pictures_as_classify_prepares_them(tmp_path: Path) -> None:
    """Its outputs say what it is, and that it is no detector is no error here."""
    path = tmp_path / "float.tflite"
    path.write_bytes(classifier())
    assert PictureInput.of(path, Hints()).user == "classify"
