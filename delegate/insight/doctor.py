"""Find what stands between a user and a working NPU: facts about the system, a verdict, the next
step.

Reads device nodes, sysfs and the Python environment; opens the device only to ask its driver's
version. ``root`` is the directory that holds dev/, sys/ and proc/.

Read what a board has shown of programs and forms of tasks, as the devices keep it.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delegate.chip.chip import PROVED
from delegate.errors import DelegateError, DeviceError
from delegate.host.host_facts import SLOW_MHZ, autosuspend_ms, npu_clock_hz, read_fact
from delegate.host.litert import PACKAGE, litert_folder, litert_problem
from delegate.host.npu_presence import (
    Cores,
    Finding,
    Node,
    find_cores,
    find_nodes,
    presence_findings,
)
from delegate.options import OPTIONS, Options
from delegate.version import __version__

if TYPE_CHECKING:
    from delegate.options import Options


_RUNTIMES = ("tflite-runtime", "ai-edge-litert", "tensorflow", "tensorflow-cpu", "numpy")
_LASTING_MS = 2000
"""The delay that others set, past which a core's sleep does not slow the others."""
_RESERVE_BYTES = 256 << 20
"""Free memory below which larger models may not find room."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    device: str
    passed: bool
    cases: int
    seconds: float
    problem: str | None
    forms: tuple[dict[str, Any], ...] = ()  # what it says of each (self_test.form_table)


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that was found, and what it means."""

    version: str
    kernel: str
    machine: str
    board: str
    python: str
    nodes: tuple[Node, ...]
    cores: Cores
    clock_hz: int | None
    autosuspend_ms: int | None  # the shortest of the cores'
    memory_available_bytes: int | None
    packages: dict[str, str]
    options: dict[str, tuple[str, str]]  # value, origin
    self_test: SelfTest | None
    record: BoardRecord | None = None  # behind the self-test
    findings: tuple[Finding, ...] = ()

    @property
    def is_healthy(self) -> bool:
        return all(finding.level != "problem" for finding in self.findings)

    @property
    def verdict(self) -> str:
        problems = [f for f in self.findings if f.level == "problem"]
        if problems:
            return problems[0].text
        if all(node.state != "usable" for node in self.nodes):
            return "no NPU here: models run on the embedded simulator"
        return "the NPU works"

    @property
    def next_step(self) -> str:
        for level in ("problem", "note"):
            for finding in self.findings:
                if finding.level == level and finding.remedy:
                    return finding.remedy
        return "nothing to do"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return {**asdict(self), "verdict": self.verdict, "next_step": self.next_step}


def examine(
    options: Options, root: Path = Path("/"), self_test: SelfTest | None = None
) -> Examination:
    """Collect the facts. ``self_test``: the result of small programs on the device of ``options``.
    Never raises for what it finds: a broken system is a result.
    """
    facts = Examination(
        version=__version__,
        kernel=platform.release(),
        machine=platform.machine(),
        board=read_fact(root / "proc/device-tree/model").strip("\0\n "),
        python=platform.python_version(),
        nodes=find_nodes(root),
        cores=find_cores(root),
        clock_hz=npu_clock_hz(root),
        autosuspend_ms=autosuspend_ms(root),
        memory_available_bytes=_memory(root),
        packages=_packages(),
        options={
            option.key: (
                options.to_strings()[option.key],
                options.origins.get(option.key, "default"),
            )
            for option in OPTIONS
        },
        self_test=self_test,
    )
    facts = replace(facts, record=_record(options))
    return replace(facts, findings=tuple(_findings(facts, options)))


def _memory(root: Path) -> int | None:
    for line in read_fact(root / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _packages() -> dict[str, str]:
    found = {}
    for name in _RUNTIMES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _record(options: Options) -> BoardRecord | None:
    try:
        return board_record(options)
    except DeviceError:
        return None  # other findings say why


def _findings(facts: Examination, options: Options) -> Iterator[Finding]:
    presence = tuple(presence_findings(facts.nodes, facts.cores, options.device))
    yield from presence
    yield from _clock_findings(facts)
    memory = facts.memory_available_bytes
    if memory is not None and memory < _RESERVE_BYTES:
        yield Finding("note", f"only {memory >> 20} MiB of memory are free", "close programs")
    if not any(name in facts.packages for name in _RUNTIMES[:-1]):
        yield Finding(
            "problem", "no TensorFlow Lite runtime is installed",
            "pip install rk3588-delegate[runtime] (or ai-edge-litert)",
        )  # fmt: skip
    yield from _litert_findings(facts)
    test = facts.self_test
    yield from _record_findings(facts.record)
    is_explained = any(finding.level == "problem" for finding in presence)
    if test is not None and not test.passed and (test.cases or not is_explained):
        yield Finding(
            "problem", f"self-test on {test.device} failed: {test.problem}",
            "see dmesg; `bring-up -o results.json` finds out more and writes a file to send",
        )  # fmt: skip
    elif test is not None and test.passed and test.cases:
        agreed = sum(form["here"] == "agreed" for form in test.forms)
        yield Finding(
            "ok",
            f"self-test on {test.device}: {test.cases} programs, bit for bit, with "
            f"{agreed} forms of tasks (--json lists them)",
        )


def _litert_findings(facts: Examination) -> Iterator[Finding]:
    """Say whether LiteRT's CompiledModel can use the NPU, to who has LiteRT."""
    if PACKAGE not in facts.packages:
        return
    problem = litert_problem()
    try:
        folder = litert_folder()
    except DelegateError as error:
        problem = problem or str(error)
    if problem:
        yield Finding("note", f"CompiledModel cannot use the NPU: {problem}", "")
    else:
        yield Finding("ok", f"CompiledModel can use the NPU by the libraries in {folder}", "")


def _record_findings(record: BoardRecord | None) -> Iterator[Finding]:
    """Say what the board has shown, and where that is kept."""
    if record is None:
        return
    if record.problem:
        yield Finding(
            "note", f"what this board shows is not kept: {record.problem}",
            "option cache_dir names a folder of this user",
        )  # fmt: skip
    yield Finding(
        "note" if record.off else "ok",
        f"this board: {record.summary}" + (f"; kept in {record.path}" if record.path else ""),
        "models are compiled without what is wrong; send `doctor --report FILE`; "
        "`doctor --forget` has it tried again"
        if record.off
        else "",
    )


def _clock_findings(facts: Examination) -> Iterator[Finding]:
    """Say what the clock is. Mainline's driver leaves it as it is. A driver that raises it parks it
    again, for all cores, as soon as one has been idle for its delay: others saw 15 ms become 69.
    """
    is_rocket = any(node.driver == "rocket" for node in facts.nodes)
    if facts.clock_hz is None and is_rocket:
        yield Finding(
            "note", "the NPU's clock is unknown (debugfs needs root)",
            "sudo cat /sys/kernel/debug/clk/scmi_clk_npu/clk_rate; 200 MHz is the boot clock of "
            "mainline kernels",
        )  # fmt: skip
    elif facts.clock_hz is not None:
        megahertz = facts.clock_hz // 1_000_000
        if megahertz < SLOW_MHZ:
            yield Finding(
                "note",
                f"the NPU runs at {megahertz} MHz now, its clock after boot and while it is idle",
                "`compile` says what that costs; mainline kernels do not scale the clock, and "
                "setting it from outside the driver, by the device tree too, hung others' boards",
            )  # fmt: skip
        else:
            yield Finding("ok", f"the NPU runs at {megahertz} MHz now")
    delay = facts.autosuspend_ms
    if is_rocket and delay is not None and delay < _LASTING_MS:
        yield Finding(
            "note",
            f"a core of the NPU that is idle for {delay} ms goes to sleep; a kernel that raises "
            "the clock lowers it then for all cores",
            "for even times: echo 2000 | sudo tee "
            "/sys/bus/platform/devices/*.npu/power/autosuspend_delay_ms",
        )  # fmt: skip


WITHOUT_NPU = ("simulator", "null")
"""Devices that are no board."""

_OFF = ("failed", "hung", "suspected", "wrong")
_MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class BoardRecord:
    """``path`` of the file, or "" where nothing is kept, and ``problem``: why it is not used.
    ``verified``: programs whose first inference was right too; ``tried``: those that were right on
    generated inputs alone. ``proved``: names of forms and relations that ``bring-up`` tried and no
    one else is known to have run. ``off``: names of forms, relations and programs, and what
    happened.
    """

    path: str
    problem: str
    verified: int
    tried: int
    proved: tuple[str, ...]
    off: Mapping[str, str]

    @property
    def summary(self) -> str:
        """Counts and names as a sentence."""
        named = [f"{name} {state}" for name, state in self.off.items()]
        more = len(named) - _MOST_NAMED
        parts = [
            f"{self.verified} programs compared with the simulator in use, {self.tried} on "
            "generated inputs alone",
            *([f"{len(self.proved)} forms proved by bring-up"] if self.proved else []),
            *named[:_MOST_NAMED],
            *([f"{more} more"] if more > 0 else []),
        ]
        return "; ".join(parts)


def is_board(options: Options) -> bool:
    """Return whether the device of ``options`` is an NPU that can be opened."""
    from delegate._native import open_device_name

    try:
        return open_device_name(options.device) not in WITHOUT_NPU
    except DeviceError:
        return False


def board_record(options: Options, *, forgets: bool = False) -> BoardRecord | None:
    """The record of the board that ``options`` name; None where there is none. ``forgets`` it.

    Raises DeviceError.
    """
    from delegate._native import board_evidence

    if not is_board(options):
        return None
    given = (options.device, options.cache_dir, options.cores)
    path, problem, states = board_evidence(*given, forgets=forgets)
    return BoardRecord(
        path=path,
        problem=problem,
        verified=sum(state == "verified" for state in states.values()),
        tried=sum(state == "ran" for state in states.values()),
        proved=tuple(name for name, state in states.items() if state.startswith(PROVED)),
        off={name: state for name, state in states.items() if state.startswith(_OFF)},
    )


def keep_proofs(options: Options, proofs: Mapping[str, str]) -> None:
    """Keep that the board of ``options`` was right with forms, by name (``delegate.npu.evidence``).
    Without a board, and where ``verify`` is off: nothing.

    Raises DeviceError.
    """
    from delegate._native import board_evidence

    if proofs and options.verify != "off" and is_board(options):
        board_evidence(options.device, options.cache_dir, options.cores, proved=proofs)


def why_not(program: bytes, options: Options) -> str | None:
    """Say what the board must not be given of a serialised Program, and why; None: it may run, or
    ``verify`` is off, or there is no board. A board that does not know the program runs it.

    Raises DeviceError.
    """
    from delegate._native import missing_forms

    if options.verify == "off" or not is_board(options):
        return None
    given = (options.device, options.cache_dir, options.timeout_ms, options.cores)
    found = missing_forms(program, *given)
    return "; ".join(f"{name} {reason}" for name, reason in found) or None
