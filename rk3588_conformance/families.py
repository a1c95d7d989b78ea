"""All families of the suite, and a case by its name."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from delegate.errors import UsageError
from rk3588_conformance import model_files
from rk3588_conformance.case import Case, Family
from rk3588_conformance.grid import grids_of

_GRIDS = (
    "teflon_grid", "conv_grid", "product_grid", "pair_grid", "function_grid", "edge_grid",
    "move_grid", "rank_grid", "arithmetic_grid", "pool_grid", "resize_grid",
    "graph_grid", "half_grid", "half_norm_grid", "sparse_grid",
)  # fmt: skip
"""The modules that define families."""


@cache
def all_families(models: Path | None) -> tuple[Family, ...]:
    """The families in the order of the list. ``models``: the folder of public models, if any."""
    modules = (import_module(f"rk3588_conformance.{name}") for name in _GRIDS)
    made = (family for module in modules for family in grids_of(module))
    return (*made, *model_files.families(models))


def case_names(models: Path | None, start: str = "") -> Iterator[str]:
    """Yield the names of all cases of families that begin so, made as they are asked for."""
    families = (family for family in all_families(models) if family.prefix.startswith(start))
    for family in families:
        for parameter in family.parameters():
            yield family.prefix + parameter


def is_half(name: str) -> bool:
    """Return whether a case is of reals that run in fp16."""
    return name.startswith("Half.") or "type_fp16" in name


def find_case(name: str, models: Path | None) -> Case:
    """The case called ``name``. Raises UsageError if there is none."""
    prefix, separator, parameter = name.partition("/")
    for family in all_families(models):
        if family.prefix == prefix + separator:
            try:
                return family.case(parameter)
            except KeyError:
                break
    raise UsageError(f"no conformance case {name!r}; --gtest_list_tests lists them")
