"""Pictures spread over processes of this machine, or over a Dask cluster.

A worker that dies loses nothing: its pictures are given to another. Results come in any order; what
is made of them does not depend on it.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from delegate.errors import DelegateError
from delegate.host.workers import Failure, spread
from delegate.model.files import MAX_MODEL_BYTES, read_file
from rk3588_vision.evaluation.evaluator import Evaluator, Record, Spec, evaluate_in_worker
from rk3588_vision.images import read_picture

_ATTEMPTS = 3
"""The number of dying workers that may have had a picture."""


def run_here(model: Path, spec: Spec, paths: Sequence[Path]) -> Iterator[Record]:
    """Run in this process, one after the other."""
    evaluator = Evaluator(model, spec)
    for path in paths:
        yield evaluator.evaluate(path.name, read_picture(path))


def _work(model: Path, spec: Spec) -> Callable[[tuple[str, bytes]], Record]:
    evaluator = Evaluator(model, spec)
    return lambda item: evaluator.evaluate(*item)


def run_in_processes(model: Path, spec: Spec, paths: Sequence[Path], jobs: int) -> Iterator[Record]:
    """Run in ``jobs`` processes. Raises DelegateError if workers keep dying."""
    left, in_vain = list(paths), 0
    for _ in range(_ATTEMPTS):
        items = ((path.name, read_picture(path)) for path in left)
        lost: list[Path] = []
        work = partial(_work, model, spec)
        with contextlib.closing(spread(work, items, min(jobs, len(left)))) as results:
            for number, result in results:
                if not isinstance(result, Failure):
                    in_vain = 0
                    yield result
                    continue
                if not result.is_lost:
                    raise result.error()
                lost.append(left[number])
                in_vain += 1
                if in_vain == _ATTEMPTS * jobs:
                    raise _dying(left[number])
        left = lost
        if not left:
            return
    raise _dying(left[0])


def _dying(path: Path) -> DelegateError:
    return DelegateError(
        f"a worker died {_ATTEMPTS} times, the last time before {path.name} was done; try --jobs 1"
    )


def run_on_cluster(
    model: Path, spec: Spec, paths: Sequence[Path], address: str
) -> Iterator[Record]:
    """Run on the workers of a Dask scheduler, which need this package but none of the files.

    Raises DelegateError if the scheduler cannot be reached or a picture's workers keep dying.
    """
    try:
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise DelegateError(
            "--scheduler needs Dask: pip install rk3588-delegate[evaluate]"
        ) from None
    try:
        client = distributed.Client(address, timeout="20s")
    except (OSError, TimeoutError, ValueError) as error:
        raise DelegateError(f"{address}: no Dask scheduler answers: {error}") from None
    with client:
        content = client.scatter(
            read_file(model, "file", MAX_MODEL_BYTES), broadcast=True, hash=True
        )
        waiting = [
            client.submit(
                evaluate_in_worker,
                content,
                spec,
                [(path.name, read_picture(path))],
                key=f"rk3588-{spec.fingerprint()[:16]}-{path.name}",
                pure=False,
                retries=_ATTEMPTS,
            )
            for path in paths
        ]
        try:
            for future in distributed.as_completed(waiting):
                yield from future.result()
        except distributed.KilledWorker as error:
            raise DelegateError(f"workers keep dying: {error}") from None
