"""Input tensors for a model: from a file, or random with a seed; ``vision.images`` makes those of
pictures.

Every source gives a ``Sample``: one array per input of the model, in the order of the runtime's
``get_input_details()``. Arrays that do not fit an input's shape or type are refused, never
reshaped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from delegate.errors import ModelError, UsageError
from delegate.model.array_files import (
    MAX_HEADER_BYTES,
    DamagedArrayError,
    open_archive,
    parse_array,
    read_member,
)
from delegate.model.files import open_plain

Sample = list[npt.NDArray[Any]]
Details = Sequence[Mapping[str, Any]]

_ZIP_MAGIC = b"PK"
_MAX_ITEM_BYTES = 16  # of any type of number: what is wider than the input's is told as such
_MAX_FILE_BYTES = 1 << 32


def _shape(details: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(int(d) for d in details["shape"])


def random_sample(inputs: Details, seed: int, rows: Mapping[int, int] | None = None) -> Sample:
    """Uniform over the whole range of integer types, over [-1, 1) for floats. ``rows``: of the
    table that an input names rows of, by its tensor.

    The same seed gives the same arrays everywhere. Raises ModelError for other types.
    """
    generator = np.random.default_rng(seed)
    sample: Sample = []
    for details in inputs:
        dtype = np.dtype(details["dtype"])
        count = (rows or {}).get(int(details["index"]))
        if count:
            array = generator.integers(0, count, _shape(details)).astype(dtype)
        elif np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype)
            array = generator.integers(
                limits.min, limits.max, _shape(details), dtype, endpoint=True
            )
        elif np.issubdtype(dtype, np.floating):
            array = generator.uniform(-1.0, 1.0, _shape(details)).astype(dtype)
        elif dtype == np.bool_:
            array = generator.integers(0, 2, _shape(details)).astype(dtype)
        else:
            raise ModelError(
                f"input {details['name']!r} has the type {dtype}; give it with --input"
            )
        sample.append(array)
    return sample


def _checked(array: npt.NDArray[Any], details: Mapping[str, Any], path: Path) -> npt.NDArray[Any]:
    shape, dtype = _shape(details), np.dtype(details["dtype"])
    if array.shape != shape or array.dtype != dtype:
        raise UsageError(
            f"{path}: holds {array.dtype} of shape {list(array.shape)}; input {details['name']!r} "
            f"takes {dtype} of shape {list(shape)}"
        )
    return np.ascontiguousarray(array)


def _bytes(details: Mapping[str, Any]) -> int:
    """Return the bytes that an array for this input may take: a larger type is refused with its own
    words.
    """
    return math.prod(_shape(details)) * _MAX_ITEM_BYTES


def _single(file: BinaryIO, inputs: Details, path: Path) -> npt.NDArray[Any]:
    if len(inputs) != 1:
        names = ", ".join(str(details["name"]) for details in inputs)
        raise UsageError(f"{path}: one array for {len(inputs)} inputs; use a .npz with {names}")
    limit = _bytes(inputs[0])
    content = file.read(limit + MAX_HEADER_BYTES + 1)
    return _checked(parse_array(content, "the array", limit), inputs[0], path)


def load_sample(path: Path, inputs: Details) -> Sample:
    """One sample from a .npy file (models with one input) or a .npz file (arrays by input name).

    Raises UsageError naming the file and what does not fit; pickled objects are never loaded.
    """
    wanted = {str(details["name"]): _bytes(details) for details in inputs}
    with open_plain(path, "input file", most_bytes=_MAX_FILE_BYTES) as file:
        try:
            if file.read(len(_ZIP_MAGIC)) != _ZIP_MAGIC:
                file.seek(0)
                return [_single(file, inputs, path)]
            with open_archive(file) as archive:
                held = [name.removesuffix(".npy") for name in archive.namelist()]
                arrays = {
                    name: read_member(archive, name, limit)
                    for name, limit in wanted.items()
                    if name in held
                }
        except DamagedArrayError as error:
            raise UsageError(f"{path}: not a .npy or .npz file of plain arrays: {error}") from None
    missing = [details["name"] for details in inputs if details["name"] not in arrays]
    if missing:
        found = ", ".join(held) or "nothing"
        raise UsageError(f"{path}: no array for input {missing[0]!r}; it holds {found}")
    return [_checked(arrays[details["name"]], details, path) for details in inputs]
