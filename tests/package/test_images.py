"""Tests the way from pictures to input tensors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from delegate.errors import ModelError, UsageError
from rk3588_vision.images import ImageInput, find_images, pixels_to_input
from rk3588_vision.placement import load_image

RAMP = np.arange(256, dtype=np.uint8).reshape(4, 64, 1)


def image_input(dtype: Any, scale: float, zero_point: int, c: int = 1) -> ImageInput:
    return ImageInput(4, 64, c, np.dtype(dtype), scale, zero_point)


def details(**changed: Any) -> dict[str, Any]:
    return {
        "name": "image",
        "shape": (1, 4, 6, 3),
        "shape_signature": (1, 4, 6, 3),
        "dtype": np.uint8,
        "quantization": (1 / 128, 128),
        **changed,
    }


@pytest.mark.parametrize(
    ("scale", "zero_point"),
    [(1 / 128, 128), (2 / 255, 127), (1 / 255, 0), (1.0, 0), (0.0, 0), (0.0186, 114)],
)
def test_uint8_inputs_take_raw_pixels(scale: float, zero_point: int) -> None:
    tensor = pixels_to_input(RAMP, image_input(np.uint8, scale, zero_point))
    assert tensor.dtype == np.uint8
    assert tensor.shape == (1, 4, 64, 1)
    assert np.array_equal(tensor[0], RAMP)


def test_channels_come_first_where_the_input_wants_it() -> None:
    first = ImageInput.from_details(details(shape=(1, 3, 5, 7), shape_signature=(1, 3, 5, 7)))
    assert (first.h, first.w, first.c, first.channels_first) == (5, 7, 3, True)
    both = ImageInput.from_details(details(shape=(1, 3, 5, 3), shape_signature=(1, 3, 5, 3)))
    assert (both.h, both.w, both.c, both.channels_first) == (3, 5, 3, False)
    pixels = np.arange(105, dtype=np.uint8).reshape(5, 7, 3)
    tensor = pixels_to_input(pixels, first)
    assert tensor.shape == (1, 3, 5, 7)
    assert tensor.flags.c_contiguous
    for h, w, c in ((0, 0, 0), (4, 2, 1), (1, 6, 2)):
        assert tensor[0, c, h, w] == pixels[h, w, c]


@pytest.mark.parametrize(
    ("scale", "zero_point"), [(1 / 128, 0), (2 / 255, -1), (1 / 255, -128), (1.0, -128)]
)
def test_int8_inputs_take_pixels_minus_128(scale: float, zero_point: int) -> None:
    tensor = pixels_to_input(RAMP, image_input(np.int8, scale, zero_point))
    assert tensor.dtype == np.int8
    assert np.array_equal(tensor[0].astype(int), RAMP.astype(int) - 128)


@pytest.mark.parametrize(
    ("scale", "zero_point", "low"), [(4 / 255, -64, -1.0), (2 / 255, -128, 0.0)]
)
def test_wider_ranges_are_quantised_from_the_range_they_share(
    scale: float, zero_point: int, low: float
) -> None:
    """int8 over [-1, 3]: pixels are normalised to [-1, 1]; over [0, 2]: to [0, 1]."""
    tensor = pixels_to_input(RAMP, image_input(np.int8, scale, zero_point))
    real = scale * (tensor.reshape(-1).astype(float) - zero_point)
    expected = low + np.arange(256) / 255 * (1.0 - low)
    assert np.abs(real - expected).max() <= scale / 2 + 1e-9


def test_float_inputs_are_normalised_with_mean_and_std() -> None:
    target = image_input(np.float32, 0.0, 0)
    assert pixels_to_input(RAMP, target).min() == -1.0
    assert pixels_to_input(RAMP, target).max() == 1.0
    assert pixels_to_input(RAMP, target, mean=0.0, std=255.0).max() == 1.0


def test_picture_is_resized_to_height_by_width(tmp_path: Path) -> None:
    """Left half black, right half white: a swap of h and w would show."""
    pixels = np.zeros((30, 20, 3), np.uint8)
    pixels[:, 10:] = 255
    Image.fromarray(pixels).save(tmp_path / "x.png")
    target = ImageInput(3, 8, 3, np.dtype(np.uint8), 1 / 128, 128)
    tensor = load_image(tmp_path / "x.png", target)
    assert tensor.shape == (1, 3, 8, 3)
    assert tensor[0, :, 0].max() == 0
    assert tensor[0, :, 7].min() == 255


def test_orientation_of_the_camera_is_followed(tmp_path: Path) -> None:
    pixels = np.zeros((20, 40, 3), np.uint8)
    pixels[:10] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=exif)
    target = ImageInput(2, 2, 3, np.dtype(np.uint8), 1.0, 0)
    tensor = load_image(tmp_path / "x.png", target)
    assert tensor[0, 0].max() < 64 < 192 < tensor[0, 1].min()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16"])
def test_every_kind_of_picture_becomes_rgb_or_grey(tmp_path: Path, mode: str) -> None:
    image = Image.new("L", (5, 7), 255).convert("RGB")
    image = Image.new("I;16", (5, 7), 65535) if mode == "I;16" else image.convert(mode)
    path = tmp_path / ("x.tiff" if mode == "CMYK" else "x.png")
    image.save(path)
    for c in (1, 3):
        tensor = load_image(path, ImageInput(3, 4, c, np.dtype(np.uint8), 1.0, 0))
        assert tensor.shape == (1, 3, 4, c)
        assert tensor.min() == 255


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"shape_signature": (1, -1, -1, 3)}, "dynamic shape"),
        ({"shape": (2, 4, 6, 3), "shape_signature": ()}, "does not take one image"),
        ({"shape": (1, 4, 6, 4), "shape_signature": ()}, "does not take one image"),
        ({"shape": (1, 100), "shape_signature": ()}, "does not take one image"),
        ({"dtype": np.int16}, "int16"),
    ],
)
def test_inputs_that_take_no_image_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        ImageInput.from_details(details(**changed))


def test_a_dynamic_batch_is_no_obstacle() -> None:
    found = ImageInput.from_details(details(shape_signature=(-1, 4, 6, 3)))
    assert (found.h, found.w, found.c) == (4, 6, 3)


def test_decompression_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (40, 60)).save(tmp_path / "x.png")  # over twice the limit
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(UsageError, match="cannot be decoded"):
        load_image(tmp_path / "x.png", image_input(np.uint8, 1.0, 0))


def test_images_of_a_folder_come_by_name(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpg", "c.txt"):
        (tmp_path / name).touch()
    assert [p.name for p in find_images(tmp_path)] == ["a.jpg", "b.PNG"]
