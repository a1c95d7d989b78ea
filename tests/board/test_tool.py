"""Tests when `make board` gives a guest up, and what it says of one."""

import json
from pathlib import Path

import pytest

from tools.board import answers, cases, cycles, guest, kernel
from tools.board.__main__ import judge
from tools.board.expected import unlike
from tools.board.harness import complaints_in
from tools.board.machine import Patience
from tools.board.packages import UnavailableError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def silence_until_given_up(boot_s: int) -> int:
    """Seconds of a guest that took ``boot_s`` to boot, spoke once a minute, then fell silent."""
    clock = Clock()
    patience = Patience(1e6, clock)
    for second in range(boot_s + 600):
        clock.now += 1
        patience.look((second // 60,), second >= boot_s)
    for silence in range(100_000):
        clock.now += 1
        try:
            patience.look((0,), True)
        except SystemExit as end:
            assert "is up but was silent" in str(end)
            return silence
    raise AssertionError("never given up")


def test_a_slow_machine_has_longer():
    assert silence_until_given_up(3) == pytest.approx(300, abs=1)
    assert silence_until_given_up(100) == pytest.approx(24 * 101, abs=1)


def test_a_guest_that_never_boots_is_given_up():
    clock = Clock()
    patience = Patience(1e6, clock)
    patience.look((), False)
    clock.now += 301
    with pytest.raises(SystemExit, match="boots but was silent for 300 s"):
        patience.look((), False)


def test_a_guest_that_always_says_something_has_an_end():
    clock = Clock()
    patience = Patience(500, clock)
    for second in range(500):
        clock.now += 1
        patience.look((second,), True)
    clock.now += 1
    with pytest.raises(SystemExit, match="was not done after 500 s"):
        patience.look((500,), True)


@pytest.mark.parametrize("is_passed", [False, True])
@pytest.mark.parametrize("log", ["", "Traceback (most recent call last):"])
def test_a_failing_case_and_a_traceback_are_failures(tmp_path: Path, is_passed: bool, log: str):
    (tmp_path / "host").mkdir()
    rows = [
        {"case": name, "passed": passed, "seconds": 1.0, "detail": ""}
        for name, passed in (("doctor", True), ("classify", is_passed))
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "host/results.jsonl").write_text(text)
    (tmp_path / "host/guest.log").write_text(log)
    assert judge(tmp_path, ["doctor", "classify"]) == (not is_passed) + bool(log)


def test_a_case_that_was_not_run_is_a_failure(tmp_path: Path):
    (tmp_path / "host").mkdir()
    row = {"case": "doctor", "passed": True, "seconds": 1.0, "detail": ""}
    (tmp_path / "host/results.jsonl").write_text(json.dumps(row) + "\n")
    assert judge(tmp_path, ["doctor", "classify"]) == 1


@pytest.mark.parametrize(
    ("given", "wrong"),
    [({"outputs": {"a": [1], "b": [2]}}, []), ({"outputs": {"a": [1], "b": [3]}}, ["b"]),
     ({"outputs": {"a": [1]}}, ["b"]), ({}, ["outputs"]), ({"outputs": None}, ["outputs"])],
)  # fmt: skip
def test_results_that_are_not_this_machines_are_named(given, wrong):
    expected = {"outputs": {"a": [1], "b": [2]}}
    found = unlike(given, expected)
    assert bool(found) == bool(wrong)
    assert all(name in found[0] for name in wrong)


def test_the_known_kernel_is_preferred_and_old_ones_are_refused():
    names = ["linux-source-6.1", "linux-source-7.2", "linux-source-7.10", "linux-source"]
    assert kernel._choose(names) == "linux-source-7.2"
    names.remove("linux-source-7.2")
    assert kernel._choose(names) == "linux-source-7.10"
    with pytest.raises(UnavailableError, match=r"from 6\.18 on"):
        kernel._choose(["linux-source-6.1", "linux-source-6.12"])


def test_only_errors_that_the_kernels_log_explains_are_repeated(monkeypatch):
    monkeypatch.setattr(cycles, "LATE", cycles.Counter())
    said = cycles.LOST[cycles.DRIVER][0]
    for late, text in ((0, said), (1, "a wrong result"), (1, "")):
        monkeypatch.setattr(cycles, "kernel_timeouts", lambda late=late: 5 + late)
        with pytest.raises(AssertionError, match="exit 1"):
            cycles.require_success(1, text, 5)
    monkeypatch.setattr(cycles, "kernel_timeouts", lambda: 6)
    with pytest.raises(cycles.LateError):
        cycles.require_success(1, f"layer: {said} 3", 5)
    cycles.require_success(0, "", 5)


def test_a_machine_that_is_always_late_is_given_up(monkeypatch):
    monkeypatch.setattr(cycles, "LATE", cycles.Counter())

    def late(_: int) -> int:
        cycles.LATE["late"] += 1
        raise cycles.LateError

    with pytest.raises(AssertionError, match="too often"):
        cycles.until(20, late)


REAL = """# create
create 1: ok
create 4294963200: ENOMEM
create 1: again
"""


@pytest.mark.parametrize(
    ("standin", "wrong"),
    [(REAL, 0), (REAL.replace("ENOMEM", "ok"), 0), (REAL.replace("again", "ok"), 1),
     (REAL.replace("create 1: ok\n", ""), 2), (REAL + "create 2: ok\n", 1), ("", 3)],
)  # fmt: skip
def test_every_row_of_the_tables_is_equal_or_explained(
    monkeypatch, tmp_path: Path, capsys, standin: str, wrong: int
):
    """The page lies beside the guest's folder, and the project's stays as it is."""
    known, page = tmp_path / "docs/page.md", tmp_path / "page.md"
    known.parent.mkdir()
    known.touch()
    monkeypatch.setitem(answers.PAGES, "rocket", known)
    monkeypatch.setattr(answers, "ask_the_standin", lambda *_: answers.parse(standin))
    found = answers.differences(answers.parse(REAL), tmp_path / "host")
    assert len(found) == wrong
    assert page.read_text().count("| create: ") == 3
    assert known.read_text() == ""
    assert f"are not those of {known}" in capsys.readouterr().out
    known.write_text(page.read_text())
    answers.differences(answers.parse(REAL), tmp_path / "host")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("timeouts", "second", "passes"), [(1, "1", True), (0, "1", False),
                                                            (1, "2", False)])  # fmt: skip
def test_only_refusals_that_the_kernels_log_explains_are_tried_again(
    monkeypatch, tmp_path: Path, timeouts: int, second: str, passes: bool
):
    (tmp_path / "compiled").mkdir()
    (tmp_path / "compiled/expected.json").write_text(json.dumps({"a": "0", "b": "1"}))
    counts = iter((5, 5 + timeouts))
    monkeypatch.setattr(cases, "HOST", tmp_path)
    monkeypatch.setattr(cases, "C_HOST", tmp_path)
    monkeypatch.setattr(cases, "kernel_timeouts", lambda: next(counts))
    answer = {2: {"a": "0", "b": "rejected"}, 1: {"b": second}}
    monkeypatch.setattr(cases, "_sums", lambda _, names: answer[len(names)])
    if passes:
        assert "1 late ones repeated" in str(cases.compiled_conformance())
    else:
        with pytest.raises(AssertionError):
            cases.compiled_conformance()


@pytest.mark.parametrize(
    ("case", "timeouts", "passes"),
    [("classify", 1, True), ("classify", 0, False), ("fault_hang", 1, False), ("hangs", 1, False)],
)
def test_only_a_case_that_the_kernels_log_explains_is_run_again(
    monkeypatch, tmp_path: Path, case: str, timeouts: int, passes: bool
):
    (tmp_path / "plan.json").write_text(json.dumps([case]))
    attempts = iter(({"passed": False, "detail": "late"}, {"passed": True, "detail": 7}))
    counts = iter((5, 5 + timeouts))
    monkeypatch.setattr(guest, "HOST", tmp_path)
    monkeypatch.setattr(guest, "attempt", lambda _: next(attempts))
    monkeypatch.setattr(guest, "kernel_timeouts", lambda: next(counts))
    monkeypatch.setattr(guest, "complaints", list)
    guest.main()
    row = json.loads((tmp_path / "results.jsonl").read_text())
    assert row["passed"] == passes
    assert row["detail"] == (7 if passes else "late")
    assert row.get("first") == ("late" if passes else None)


def test_what_the_kernel_says_of_the_product_is_told_from_what_a_driver_causes():
    sync = "[ 39.5] WARNING: kernel/dma/debug.c:1159 at check_sync+0x2f8/0xa2c, CPU#1: python3/55"
    freed = "[ 41.0] BUG: KASAN: slab-use-after-free in rknpu_job_free+0x20/0x70 [rknpu]"
    other = "[ 42.0] WARNING: kernel/dma/debug.c:1159 at check_unmap+0x2f8/0xa2c"
    log = "\n".join(("[ 1.0] RKNPU: soft reset, num: 6", sync, freed, other))
    assert complaints_in(log, "rocket") == [sync, freed, other]
    assert complaints_in(log, "rknpu") == [freed, other]


def test_a_kernel_of_ones_own_is_made_again_but_configured_once(monkeypatch, tmp_path: Path):
    tree, made = tmp_path / "linux", []

    def make(_: Path, folder: Path, output: str, *targets: str) -> None:
        made.append((folder, targets[-1]))
        build = Path(output.partition("=")[2])
        for name in ("arch/arm64/boot/Image", *kernel._MODULES):
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            (build / name).touch()

    monkeypatch.setattr(kernel, "make", make)
    monkeypatch.setattr(kernel, "BUILD_TOOLS", ())
    for _ in range(2):
        folder = kernel.build_kernel(tmp_path / "cache", tree=tree)
        assert (folder / "rocket.ko").exists()
    assert made == [(tree, "allnoconfig"), (tree, "modules"), (tree, "modules")]
    monkeypatch.setattr(kernel, "fetch_source", lambda _: tmp_path / "debian")
    assert kernel.build_kernel(tmp_path / "cache") != folder
