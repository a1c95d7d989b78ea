"""The one table of options: keys, types, defaults, environment variables, help.

Takes key/value pairs as a runtime or a user gives them, and the environment; gives an immutable
``Options`` with the origin of every value. Refuses unknown keys, malformed values and values that
need a feature this version does not have: an option is never accepted and ignored.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from delegate.errors import OptionError
from delegate.tflite_operators import BUILTIN_OPERATORS

ENVIRONMENT_PREFIX = "RK3588_DELEGATE_"

ORIGIN_EXPLICIT = "option"
ORIGIN_ENVIRONMENT = "environment"
ORIGIN_DEFAULT = "default"

MAX_TIMEOUT_MS = 3_600_000  # an hour: the slowest simulated model takes minutes
MAX_COUNT = 1_000_000  # nodes or partitions: far above any model, far below an int32

# Values travel as "key:value;key:value" (benchmark_model) and "key#value" (GStreamer), so none may
# contain these. Paths are exempt: they are the user's.
_LIST_SEPARATORS = re.compile(r"[,+\s]+")
_NODE_NUMBER = re.compile(r"[0-9]{1,9}")

OptionValue = str | int | bool | tuple[str, ...]


def _describe_choices(choices: tuple[str, ...]) -> str:
    return ", ".join(choices)


def _closest(word: str, candidates: tuple[str, ...]) -> str:
    found = difflib.get_close_matches(word, candidates, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table.

    ``parse`` turns the text into the value or raises ValueError with what is expected.
    ``available`` lists the values this version can honour (None: all that parse); ``values`` says
    in words what may be given.
    """

    key: str
    default: str
    values: str
    help: str
    parse: Callable[[str], OptionValue]
    available: tuple[OptionValue, ...] | None = None

    @property
    def environment(self) -> str:
        """The environment variable of the same meaning."""
        return ENVIRONMENT_PREFIX + self.key.upper()

    @property
    def offered(self) -> str:
        """In words, the values that this version honours."""
        if self.available is None:
            return self.values
        return ", ".join(str(value) for value in self.available)


def _one_of(*choices: str) -> Callable[[str], OptionValue]:
    def parse(text: str) -> OptionValue:
        value = text.strip().lower()
        if value not in choices:
            raise ValueError(f"one of {_describe_choices(choices)}{_closest(value, choices)}")
        return value

    return parse


def _integer(lowest: int, highest: int) -> Callable[[str], OptionValue]:
    def parse(text: str) -> OptionValue:
        expected = f"an integer from {lowest} to {highest}"
        if not re.fullmatch(r"[+-]?[0-9]{1,12}", text.strip()):
            raise ValueError(expected)
        value = int(text)
        if not lowest <= value <= highest:
            raise ValueError(expected)
        return value

    return parse


_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def _boolean(text: str) -> OptionValue:
    value = text.strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ValueError("true or false")


DEVICES = ("auto", "rocket", "rknpu", "simulator", "null")


def _device(text: str) -> OptionValue:
    value = text.strip()
    if value.startswith("/"):
        return value
    if value.lower() not in DEVICES:
        names = _describe_choices(DEVICES)
        raise ValueError(
            f"one of {names} or a device path such as /dev/accel/accel0"
            f"{_closest(value.lower(), DEVICES)}"
        )
    return value.lower()


def _cores(text: str) -> OptionValue:
    """auto, all, a list (0,2), a range (0-2) or a mask (0x5); three cores exist."""
    expected = "auto, all, or cores 0 to 2 as a list (0,2), a range (0-2) or a mask (0x5)"
    value = text.strip().lower()
    if value in ("auto", "all"):
        return value
    if re.fullmatch(r"0x[0-7]", value):
        mask = int(value, 16)
        if mask == 0:
            raise ValueError(expected)
        return ",".join(str(core) for core in range(3) if mask >> core & 1)
    if match := re.fullmatch(r"([0-2])-([0-2])", value):
        first, last = int(match[1]), int(match[2])
        if first > last:
            raise ValueError(expected)
        return ",".join(str(core) for core in range(first, last + 1))
    cores = sorted(set(_LIST_SEPARATORS.split(value)))
    if not cores or any(core not in ("0", "1", "2") for core in cores):
        raise ValueError(expected)
    return ",".join(cores)


def _operators(text: str) -> OptionValue:
    """Operator names of TensorFlow Lite in any case, CUSTOM for all custom ones, node numbers."""
    names = {name.upper() for name in _LIST_SEPARATORS.split(text.strip()) if name}
    for name in sorted(names):
        if name not in BUILTIN_OPERATORS and not _NODE_NUMBER.fullmatch(name):
            raise ValueError(
                "TensorFlow Lite operator names or node numbers, as CONV_2D,ADD,12; "
                f"{name} is none{_closest(name, BUILTIN_OPERATORS)}"
            )
    return tuple(sorted(names))


def _path_or_off(text: str) -> OptionValue:
    if not text.strip():
        raise ValueError("a path, or off")
    return "off" if text.strip().lower() == "off" else text


OPTIONS: tuple[Option, ...] = (
    Option(
        "device", "auto", "auto, rocket, rknpu, simulator, null or a device path",
        "where programs run; null accepts submits and computes nothing",
        _device,
    ),
    Option(
        "cores", "auto", "auto, all, or cores as 0,2 or 0-2 or 0x5",
        "NPU cores that interpreters of this process share; auto = one stream each", _cores,
    ),
    Option(
        "split_rows", "off", "off, auto or always",
        "share the rows of an inference's layers among the cores: auto = where the estimate gains",
        _one_of("off", "auto", "always"),
    ),
    Option(
        "cache_dir", "off", "a directory, or off",
        "where compiled programs are kept", _path_or_off,
    ),
    Option(
        "min_nodes", "1", "an integer from 1", "smallest partition worth delegating, in nodes",
        _integer(1, MAX_COUNT),
    ),
    Option(
        "max_partitions", "0", "an integer from 0",
        "how many partitions to delegate, those with the most multiplications; 0 = all",
        _integer(0, MAX_COUNT),
    ),
    Option(
        "only_faster", "false", "true or false",
        "leave partitions to the CPU that it runs as fast, by estimate", _boolean,
    ),
    Option(
        "regcmd", "complete", "complete or delta",
        "commands of a task: all registers, or those that change, for rknpu and batched rocket",
        _one_of("complete", "delta"),
    ),
    Option(
        "deny_ops", "", "operator names or node numbers, as ADD,12",
        "nodes that stay on the CPU, to find a bad layer", _operators,
    ),
    Option(
        "strict", "false", "true or false",
        "fail instead of leaving a node to the CPU", _boolean,
    ),
    Option(
        "timeout_ms", "0", f"an integer from 0 to {MAX_TIMEOUT_MS}",
        "longest wait for one submit to an NPU; 0 = the device's default",
        _integer(0, MAX_TIMEOUT_MS),
    ),
    Option(
        "profile", "off", "off, json or a path", "timings of every layer", _path_or_off,
        available=("off",),
    ),
    Option(
        "dump", "off", "a directory, or off", "write every program as a capture", _path_or_off,
        available=("off",),
    ),
    Option(
        "verify", "off", "off, sim or cpu", "run every partition twice and compare",
        _one_of("off", "sim", "cpu"), available=("off", "sim"),
    ),
    Option(
        "log_level", "warning", "error, warning, info or debug", "how much is logged to stderr",
        _one_of("error", "warning", "info", "debug"),
    ),
)  # fmt: skip

OPTIONS_BY_KEY: Mapping[str, Option] = MappingProxyType({o.key: o for o in OPTIONS})


def _unknown(kind: str, key: str, candidates: tuple[str, ...]) -> OptionError:
    suggestion = _closest(key, candidates)
    return OptionError(f"unknown {kind} {key!r}{suggestion}; valid: {', '.join(candidates)}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(sorted(str(item) for item in value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _parse(option: Option, text: str, name: str) -> OptionValue:
    if "\0" in text:
        raise OptionError(f"{name} contains a NUL byte")
    try:
        value = option.parse(text)
    except ValueError as error:
        raise OptionError(f"{name} is {text!r}; expected {error}") from None
    if option.available is not None and value not in option.available:
        raise OptionError(
            f"{name} is {text!r}, which is not available in this version; available: "
            f"{option.offered}"
        )
    return value


@dataclass(frozen=True, slots=True)
class Options:
    """The effective options. ``origins`` says for each key: option, environment or default.

    ``deny_ops`` is sorted and in capitals; ``max_partitions`` and ``timeout_ms`` 0 mean "no limit"
    and "the device's default"; ``cache_dir``, ``profile`` and ``dump`` are "off" or a path.
    """

    device: str = "auto"
    cores: str = "auto"
    split_rows: str = "off"
    cache_dir: str = "off"
    min_nodes: int = 1
    max_partitions: int = 0
    only_faster: bool = False
    regcmd: str = "complete"
    deny_ops: tuple[str, ...] = ()
    strict: bool = False
    timeout_ms: int = 0
    profile: str = "off"
    dump: str = "off"
    verify: str = "off"
    log_level: str = "warning"
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
                text = _text(explicit[option.key])
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
