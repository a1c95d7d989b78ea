"""Comparisons of many samples, spread over processes.

Every process loads the model once and takes samples as it gets free; results do not depend on their
number. Errors of a process come back as the error they were, in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from delegate.errors import DelegateError
from delegate.host.interruption import is_interrupted, kill_workers, starting_processes
from delegate.insight.comparison import Comparer, Comparison
from delegate.options import Options
from delegate.vision.model_inputs import Details, Sample

Source = Callable[[Details], Sample]
Done = Callable[[], None]


@dataclass(frozen=True, slots=True)
class _Failure:
    text: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class _Setup:
    path: Path
    options: dict[str, str]
    per_op: bool
    reference_kernels: bool

    def comparer(self) -> Comparer:
        return Comparer(
            self.path,
            Options.from_mapping(self.options),
            per_op=self.per_op,
            reference_kernels=self.reference_kernels,
        )


_comparer: Comparer | _Failure | None = None
"""This process's own; set only in worker processes."""


def _start_worker(setup: _Setup) -> None:
    global _comparer  # noqa: PLW0603  a process pool has no other place for a worker's state
    try:
        _comparer = setup.comparer()
    except DelegateError as error:
        _comparer = _Failure(str(error), error.exit_code)


def _compare(source: Source) -> Comparison | _Failure:
    if isinstance(_comparer, _Failure):
        return _comparer
    assert _comparer is not None, "the pool's initializer has run"
    try:
        return _comparer.compare_one(source(_comparer.inputs))
    except DelegateError as error:
        return _Failure(str(error), error.exit_code)


def _raise(failure: _Failure) -> None:
    error = DelegateError(failure.text)
    error.exit_code = failure.exit_code
    raise error


def compare_in_processes(
    path: Path,
    options: Options,
    sources: Sequence[Source],
    *,
    per_op: bool,
    reference_kernels: bool,
    jobs: int,
    done: Done,
) -> tuple[Comparison, int]:
    """Compares all sources; returns the sum and the number of delegated nodes.

    ``sources`` must be picklable where ``jobs`` > 1. ``done`` is called after each sample. Raises
    what ``Comparer`` raises.
    """
    setup = _Setup(path, options.to_strings(), per_op, reference_kernels)
    total = Comparison()
    # The parent loads the model too: bad models and options fail here, before a process starts.
    if min(jobs, len(sources)) <= 1:
        comparer = setup.comparer()
        for source in sources:
            total.merge(comparer.compare_one(source(comparer.inputs)))
            done()
        return total, comparer.model.delegation.delegated_nodes
    from delegate.host.delegated import DelegatedModel

    delegated = DelegatedModel.load(path, options).delegation.delegated_nodes
    with ProcessPoolExecutor(
        min(jobs, len(sources)), get_context("spawn"), _start_worker, (setup,)
    ) as pool:
        try:
            with starting_processes():
                results = pool.map(_compare, sources)
            for result in results:
                if isinstance(result, _Failure):
                    _raise(result)
                else:
                    total.merge(result)
                    done()
        except BrokenProcessPool:
            raise DelegateError("a comparing process died; try --jobs 1") from None
        except BaseException:
            if is_interrupted():
                kill_workers()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return total, delegated
