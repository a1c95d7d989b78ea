"""Comparisons of many samples, spread over processes.

Every process loads the model once and takes samples as it gets free; results do not depend on their
number. Errors of a process come back as the error they were, in one line.
"""

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from delegate.errors import DelegateError
from delegate.host.runtimes import require_reference_kernels
from delegate.host.samples import Details, Sample
from delegate.host.workers import Failure, in_order, spread
from delegate.options import Options
from rk3588_conformance.comparison import Comparer, Comparison

Source = Callable[[Details], Sample]
Done = Callable[[], None]


def _comparer(path: Path, options: dict[str, str], **how: bool) -> Comparer:
    return Comparer(path, Options.from_mapping(options), **how)


def _work(make: Callable[[], Comparer]) -> Callable[[Source], Comparison]:
    comparer = make()
    return lambda source: comparer.compare_one(source(comparer.inputs))


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
    if per_op or reference_kernels:
        require_reference_kernels(path)
    how = {"per_op": per_op, "reference_kernels": reference_kernels}
    make = partial(_comparer, path, options.to_strings(), **how)
    total = Comparison()
    # The parent loads the model too: bad models and options fail here, before a process starts.
    if min(jobs, len(sources)) <= 1:
        comparer = make()
        for source in sources:
            total.merge(comparer.compare_one(source(comparer.inputs)))
            done()
        return total, comparer.model.delegation.delegated_nodes
    from delegate.host.delegated import DelegatedModel

    delegated = DelegatedModel.load(path, options).delegation.delegated_nodes
    results = in_order(spread(partial(_work, make), sources, min(jobs, len(sources))))
    with contextlib.closing(results):
        for result in results:
            if isinstance(result, Failure):
                if result.is_lost:
                    raise DelegateError("a comparing process died; try --jobs 1")
                raise result.error()
            total.merge(result)
            done()
    return total, delegated
