"""The one table of options: the fields of :class:`Options`, each with its kind, default and
meaning.

Takes key/value pairs as a runtime or a user gives them, and the environment; gives an immutable
``Options`` with the origin of every value. Refuses unknown keys and malformed values: an option is
never accepted and ignored.

Everything else follows from the table: the environment variables, the cache's key, the texts and
pages, and the parser of processes without Python, which reads the same table as a C++ header
(``tools.generate`` writes it).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from delegate.chip import NAMES
from delegate.errors import OptionError
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.option_kinds import (
    Choice,
    ChoiceOrPath,
    Cores,
    Flag,
    Integer,
    Kind,
    Nodes,
    OptionValue,
    PathOrWord,
    closest,
)

ENVIRONMENT_PREFIX = "RK3588_DELEGATE_"

ORIGIN_EXPLICIT = "option"
ORIGIN_ENVIRONMENT = "environment"
ORIGIN_DEFAULT = "default"

_MOST_SHOWN = 200  # characters of a bad value that a message repeats
MAX_TIMEOUT_MS = 3_600_000  # an hour: the slowest simulated model takes minutes
SLOW = "SLOW"
"""A word of option deny_ops: nodes of partitions that the CPU runs as fast."""
NONE = "NONE"
"""A word of option deny_ops that names no node: where an empty value means the default."""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table. ``changes_programs``: other values may give other programs, so that a
    cached one does not serve; such options steer only the compiler.
    """

    key: str
    kind: Kind
    default: str
    help: str
    changes_programs: bool

    @property
    def environment(self) -> str:
        """The environment variable of the same meaning."""
        return ENVIRONMENT_PREFIX + self.key.upper()


def _option(kind: Kind, default: str, help: str, *, changes_programs: bool = False) -> Any:
    return field(
        default=kind.parse(default),
        metadata={"row": (kind, default, help, changes_programs)},
    )


def _unknown(kind: str, key: str, candidates: tuple[str, ...]) -> OptionError:
    suggestion = closest(key, candidates)
    return OptionError(f"unknown {kind} {_shown(key)}{suggestion}; valid: {', '.join(candidates)}")


def _shown(value: object) -> str:
    """Return ``value`` for a message: quoted, in ASCII, its beginning if it is long."""
    text = ascii(value)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(sorted(str(item) for item in value))
    return os.fsdecode(value) if isinstance(value, os.PathLike) else str(value)


def _parse(option: Option, text: str, name: str) -> OptionValue:
    try:
        is_text = b"\0" not in text.encode()
    except UnicodeEncodeError:
        is_text = False
    if not is_text:
        raise OptionError(f"{name} is {_shown(text)}; expected UTF-8 without NUL bytes")
    try:
        return option.kind.parse(text)
    except ValueError as error:
        raise OptionError(f"{name} is {_shown(text)}; expected {error}") from None


def user_cache_folder() -> str | None:
    """Return this package's folder in the user's cache, $XDG_CACHE_HOME or ~/.cache; None where
    there is none. The rule of ``default_cache_folder`` in ``native/evidence/record.cpp``.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        home = os.environ.get("HOME", "")
        if not home.startswith("/"):
            return None
        base = f"{home}/.cache"
    return f"{base}/rk3588-delegate"


@dataclass(frozen=True, slots=True)
class Options:
    """The effective options; the fields are the table. ``origins`` says for each key: option,
    environment or default.

    ``deny_ops`` is sorted and in capitals; ``timeout_ms`` 0 means "the device's default";
    ``cache_dir`` is "auto", "off" or a path: see ``cache_folder``.
    """

    device: str = _option(
        ChoiceOrPath(("auto", "rocket", "rknpu", "simulator", "null")), "auto",
        "where programs run; null accepts submits and computes nothing",
    )  # fmt: skip
    cores: str = _option(
        Cores(3), "auto",
        "NPU cores that interpreters of this process share; auto = one stream each",
    )  # fmt: skip
    chip: str = _option(
        Choice(("auto", *NAMES)), "auto",
        f"the chip that programs are for; auto = the board's, without a board {NAMES[0]}",
        changes_programs=True,
    )  # fmt: skip
    numerics: str = _option(
        Choice(("auto", "exact")), "auto",
        "auto = within one step, by forms of tasks that have run on silicon; exact = equal to the "
        "reference kernels wherever that is provable",
        changes_programs=True,
    )  # fmt: skip
    float: str = _option(
        Choice(("off", "fp16", "auto")), "auto",
        "float32 models in fp16, within a bound per node; auto = those whose metadata or weights "
        "of float16 or int8 say that they bear it",
        changes_programs=True,
    )  # fmt: skip
    cache_dir: str = _option(
        PathOrWord(("auto", "off")), "auto",
        "a folder where compiled programs and what boards show are kept; auto = of this user, "
        "rk3588-delegate in $XDG_CACHE_HOME or ~/.cache; off = no programs",
    )  # fmt: skip
    deny_ops: tuple[str, ...] = _option(
        Nodes((SLOW, NONE, *BUILTIN_OPERATORS)), SLOW,
        "nodes that stay on the CPU, to find a bad layer; SLOW = those of partitions that the "
        "CPU runs as fast by estimate, unless strict is set; NONE = all may go to the NPU",
        changes_programs=True,
    )  # fmt: skip
    strict: bool = _option(Flag(), "false", "fail instead of leaving a node to the CPU")
    timeout_ms: int = _option(
        Integer(0, MAX_TIMEOUT_MS), "0",
        "longest wait for one submit to an NPU; 0 = the device's default",
    )  # fmt: skip
    verify: str = _option(
        Choice(("auto", "off", "sim", "sample")), "auto",
        "auto = compare a program that an NPU does not know with the simulator: when it is loaded, "
        "and its first inference; sim, sample = every run too, or one in 100 in the background",
    )  # fmt: skip
    stats_dir: str = _option(
        PathOrWord(("off",)), "off",
        "a folder where the process keeps its counters, PID.prom, for command top and Prometheus",
    )  # fmt: skip
    log_level: str = _option(
        Choice(("error", "warning", "info", "debug")), "warning", "how much is logged to stderr"
    )
    origins: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def from_mapping(
        cls,
        mapping: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Options:
        """Effective options from explicit pairs and the environment; explicit wins, then
        environment.

        ``environ`` None means ``os.environ``. An empty environment variable counts as unset.
        Raises OptionError naming the key, the value and what is valid.
        """
        explicit = dict(mapping or {})
        environment = os.environ if environ is None else environ
        keys = tuple(OPTIONS_BY_KEY)
        for key in explicit:
            if key not in OPTIONS_BY_KEY:
                raise _unknown("option", str(key), keys)
        variables = tuple(option.environment for option in OPTIONS)
        for name in environment:
            if name.startswith(ENVIRONMENT_PREFIX) and name not in variables:
                raise _unknown("environment variable", name, variables)

        values: dict[str, OptionValue] = {}
        origins: dict[str, str] = {}
        for option in OPTIONS:
            from_environment = environment.get(option.environment, "")
            if option.key in explicit:
                origin, name = ORIGIN_EXPLICIT, f"option {option.key!r}"
                value = explicit[option.key]
                if value is None or isinstance(value, (bytes, bytearray)):
                    raise OptionError(
                        f"{name} is {_shown(value)}; expected text, a number or a path"
                    )
                text = _text(value)
            elif from_environment:
                origin, name = ORIGIN_ENVIRONMENT, f"environment variable {option.environment}"
                text = from_environment
            else:
                origin, name, text = ORIGIN_DEFAULT, f"option {option.key!r}", option.default
            values[option.key] = _parse(option, text, name)
            origins[option.key] = origin
        return cls(**values, origins=MappingProxyType(origins))  # type: ignore[arg-type]

    def to_strings(self) -> dict[str, str]:
        """The values as the key/value strings of a TensorFlow Lite delegate, all keys, in table
        order.
        """
        return {option.key: _text(getattr(self, option.key)) for option in OPTIONS}

    def given(self) -> dict[str, str]:
        """Return the ``to_strings`` that somebody said; the plugin knows the defaults itself."""
        strings = self.to_strings().items()
        return {key: text for key, text in strings if self.origins.get(key) != ORIGIN_DEFAULT}

    def cache_folder(self) -> str | None:
        """Return the folder that keeps programs. None: no programs are kept, by ``cache_dir`` =
        off or because the user has no cache folder.
        """
        if self.cache_dir != "auto":
            return None if self.cache_dir == "off" else self.cache_dir
        return user_cache_folder()

    @property
    def leaves_slow(self) -> bool:
        """Return whether the CPU keeps what it runs as fast; ``strict`` asks for everything."""
        return SLOW in self.deny_ops and not self.strict

    def compiling(self) -> tuple[tuple[str, OptionValue], ...]:
        """Key and value of every option that changes programs."""
        return tuple((o.key, getattr(self, o.key)) for o in OPTIONS if o.changes_programs)


OPTIONS: tuple[Option, ...] = tuple(
    Option(row.name, *row.metadata["row"]) for row in dataclasses.fields(Options) if row.metadata
)
OPTIONS_BY_KEY: Mapping[str, Option] = MappingProxyType({o.key: o for o in OPTIONS})
