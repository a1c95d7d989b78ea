"""Pictures spread over processes of this machine, or over a Dask cluster.

A worker that dies loses nothing: its pictures are given to another. Results come in any order; what
is made of them does not depend on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from delegate.errors import DelegateError
from delegate.host.interruption import is_interrupted, kill_workers, starting_processes
from delegate.model.files import MAX_MODEL_BYTES, read_file
from delegate.vision.evaluation.evaluator import Evaluator, Record, Spec, evaluate_in_worker
from delegate.vision.images import read_picture

_ATTEMPTS = 3
"""How often a picture may be among those of a worker that dies."""


def run_here(model: Path, spec: Spec, paths: Sequence[Path]) -> Iterator[Record]:
    """In this process, one after the other."""
    evaluator = Evaluator(model, spec)
    for path in paths:
        yield evaluator.evaluate(path.name, read_picture(path))


def run_in_processes(model: Path, spec: Spec, paths: Sequence[Path], jobs: int) -> Iterator[Record]:
    """In ``jobs`` processes. Raises DelegateError if workers keep dying."""
    content = read_file(model, "file", MAX_MODEL_BYTES)
    left = {path.name: path for path in paths}
    attempts = 0
    while left:
        before = len(left)
        pool = ProcessPoolExecutor(min(jobs, len(left)), get_context("spawn"))
        try:
            items = [(name, read_picture(path)) for name, path in left.items()]
            with starting_processes():
                waiting = {pool.submit(evaluate_in_worker, content, spec, [item]) for item in items}
            for future in as_completed(waiting):
                for record in future.result():
                    del left[record["image"]]
                    yield record
        except BrokenProcessPool:
            attempts = attempts + 1 if len(left) == before else 0
            if attempts >= _ATTEMPTS:
                name = next(iter(left))
                raise DelegateError(
                    f"a worker died {_ATTEMPTS} times, the last time before {name} was done; try "
                    "--jobs 1"
                ) from None
        except BaseException:
            if is_interrupted():
                kill_workers()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def run_on_cluster(
    model: Path, spec: Spec, paths: Sequence[Path], address: str
) -> Iterator[Record]:
    """On the workers of a Dask scheduler, which need this package but none of the files.

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
