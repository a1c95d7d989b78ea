"""Files that commands write: complete or not at all.

Serve the commands that take pictures: which files they mean, inputs, the facts they report.
"""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from delegate.cli.command import warn, warn_if_on_cpu
from delegate.errors import UsageError
from delegate.host.delegated import DelegatedModel
from delegate.host.samples import Details, Sample, random_sample
from delegate.model.files import write_file as write_file
from rk3588_vision.images import find_images
from rk3588_vision.placement import image_sample


def check_writable(*paths: Path | None) -> None:
    """Refuses, before long work, a path that ``write_file`` would refuse after it; None is a file
    that nobody wants. Raises UsageError.
    """
    for path in paths:
        if path is not None and (reason := _obstacle(path)) is not None:
            raise UsageError(f"cannot write {path}: {reason}")


def _obstacle(path: Path) -> str | None:
    folder = Path(os.path.realpath(path)).parent
    try:
        if path.is_dir():
            return os.strerror(errno.EISDIR)
        if not folder.is_dir():
            return os.strerror(errno.ENOENT)
        place = path if path.exists() and not path.is_file() else folder
    except OSError as error:  # a folder that this user may not look into
        return error.strerror
    return None if os.access(place, os.W_OK) else os.strerror(errno.EACCES)


def refuse_overwriting(model: Path, output: Path, what: str = "model") -> None:
    """The model is mapped while it is read: writing over it would pull it away."""
    if output.exists() and model.exists() and output.samefile(model):
        raise UsageError(f"-o {output}: is the {what} itself; give another name")


def picture_paths(arguments: Sequence[Path]) -> list[Path]:
    """Files as given, folders as the pictures directly in them. Raises UsageError."""
    paths: list[Path] = []
    for path in arguments:
        paths += find_images(path) if path.is_dir() else [path]
    return paths


def sample_source(arguments: argparse.Namespace) -> Callable[[Details], Sample]:
    """Return a function that makes the input of a model as --image or --seed says."""
    if arguments.image is not None:
        return partial(image_sample, arguments.image)
    return partial(random_sample, seed=arguments.seed)


def warn_of_meaning(path: Path, model: DelegatedModel, results: str) -> None:
    """Says on stderr if nothing ran on the NPU, or nothing was computed."""
    warn_if_on_cpu(path, model.delegation.delegated_nodes)
    if model.device == "null" and model.delegation.delegated_nodes:
        warn(f"the device null computes nothing: the {results} mean nothing")


def delegation_facts(model: DelegatedModel) -> dict[str, Any]:
    """The device and what it took, under the names of the JSON documents."""
    return {
        "device": model.device,
        "delegated_nodes": model.delegation.delegated_nodes,
        "total_nodes": model.delegation.total_nodes,
        "partitions": model.delegation.partitions,
        "submits_per_invoke": model.submits_per_invoke,
    }
