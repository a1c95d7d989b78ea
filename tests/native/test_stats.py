"""The counters of what kernels did: exact under threads, over lifetimes, in every form they take.

Other tests of the process count too, so all claims are about differences.
"""

import gc
import re
import subprocess
import sys
import threading
import time

import pytest

import delegate
from delegate.host.statistics import Stats
from delegate.insight.published_stats import published
from tests.native.inference import CONV_NODES, invoke
from tests.native.test_end_to_end import small_conv
from tests.processes import python


def grown(before: Stats, after: Stats) -> dict[str, float]:
    names = ("inferences", "runs", "errors", "repeats", "verified", "differences")
    names += ("conversion_s", "device_s", "between_s")
    return {name: getattr(after, name) - getattr(before, name) for name in names}


def test_every_inference_and_run_counts(delegated, model):
    """Two partitions with a node of the CPU between them."""
    made = delegated(model)
    before, start = delegate.stats(), time.monotonic()
    for _ in range(7):
        invoke(made)
    passed = time.monotonic() - start
    growth = grown(before, delegate.stats())
    assert growth["inferences"] == 7
    assert growth["runs"] == 7 * len(CONV_NODES)
    assert growth["errors"] == growth["repeats"] == growth["verified"] == 0
    times = [growth[name] for name in ("conversion_s", "device_s", "between_s")]
    assert all(value > 0 for value in times)
    assert sum(times) < passed


def test_between_is_the_node_on_the_cpu_and_not_the_pause_of_the_caller(delegated, model):
    made = delegated(model)
    before = delegate.stats()
    for _ in range(2):
        invoke(made)
        time.sleep(0.3)
    assert grown(before, delegate.stats())["between_s"] < 0.3


def test_threads_lose_no_count(delegated, model):
    threads, runs = 4, 200
    made = [delegated(model) for _ in range(threads)]
    before = delegate.stats()

    def work(interpreter):
        for _ in range(runs):
            interpreter.invoke()

    workers = [threading.Thread(target=work, args=(each,)) for each in made]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        delegate.prometheus_text()  # readers disturb nobody
    growth = grown(before, delegate.stats())
    assert growth["inferences"] == threads * runs
    assert growth["runs"] == threads * runs * len(CONV_NODES)


def test_counts_outlive_interpreters_and_delegates(delegated, model):
    made = delegated(model)
    made.invoke()
    before = delegate.stats()
    del made
    gc.collect()
    assert delegate.stats() == before


def test_a_run_that_fails_is_an_error_and_no_run(runtime, load):
    """verify compares with the simulator, which computes; the null device does not."""
    made = runtime.Interpreter(
        model_content=small_conv(), experimental_delegates=[load(verify="sim")]
    )
    made.allocate_tensors()
    before = delegate.stats()
    with pytest.raises(RuntimeError, match="differ from the simulator"):
        made.invoke()
    growth = grown(before, delegate.stats())
    assert (growth["errors"], growth["runs"], growth["inferences"]) == (1, 0, 1)
    assert (growth["verified"], growth["differences"]) == (1, 1)


LINE = re.compile(
    r'rk3588_delegate_([a-z_]+)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? ([0-9.]+)'
)


def test_text_is_what_prometheus_reads(delegated, model):
    """Each metric once, HELP and TYPE first; names by convention; the numbers of stats()."""
    made = delegated(model)
    made.invoke()
    text, stats = delegate.prometheus_text(), delegate.stats()
    assert text.endswith("\n")
    sums: dict[str, float] = {}
    order: list[str] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            order.append(line.split()[2])
            assert line.endswith(".")
            continue
        if line.startswith("# TYPE "):
            assert line == f"# TYPE {order[-1]} counter"
            continue
        match = LINE.fullmatch(line)
        assert match, line
        assert f"rk3588_delegate_{match[1]}" == order[-1]
        assert match[1].endswith("_total")
        sums[match[1]] = sums.get(match[1], 0) + float(match[3])
    assert len(order) == len(set(order))
    assert sums["inferences_total"] == stats.inferences
    assert sums["runs_total"] == stats.runs
    assert sums["run_errors_total"] == stats.errors
    cpu = sum(program.cpu_s for program in stats.programs)
    whole = stats.conversion_s + stats.device_s + cpu
    assert sums["phase_seconds_total"] == pytest.approx(whole, abs=1e-6)


_CHILD = """
import sys, numpy, delegate
from delegate.host.runtimes import find_runtime
from tests.native.test_end_to_end import small_conv
made = find_runtime().module.Interpreter(model_content=small_conv(), experimental_delegates=[
    delegate.load_delegate(device="simulator", log_level=sys.argv[1], verify=sys.argv[2])])
made.allocate_tensors()
for _ in range(3):
    made.invoke()
stats = delegate.stats()
print(stats.verified, stats.differences, stats.programs[0].device)
"""


@pytest.mark.parametrize(("level", "is_told"), [("info", True), ("warning", False)])
def test_the_log_tells_at_the_end(level, is_told):
    """Also where the process ends with its interpreter open."""
    done = python("-c", _CHILD, level, "sim", check=True)
    assert done.stdout.split() == ["3", "0", "simulator"]
    told = "so far: 3 inferences, 3 runs of partitions: " in done.stderr
    assert told == is_told


_PUBLISHER = """
import sys, time, delegate
from delegate.host.runtimes import find_runtime
from tests.native.test_end_to_end import small_conv
made = find_runtime().module.Interpreter(model_content=small_conv(), experimental_delegates=[
    delegate.load_delegate(device="simulator", stats_dir=sys.argv[1])])
made.allocate_tensors()
for _ in range(5):
    made.invoke()
time.sleep(1.1)
made.invoke()
print(delegate.stats().programs[0].device_s, flush=True)
sys.stdin.read()
"""


def test_processes_publish_their_counters_and_leave_nothing(tmp_path):
    """Another process reads what stats() says in the first, up to the last publication."""
    folder = tmp_path / "counters"
    with subprocess.Popen(
        [sys.executable, "-c", _PUBLISHER, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        seconds = float(process.stdout.readline())
        (path,) = folder.iterdir()
        assert path.name == f"{process.pid}.prom"
        found = published(folder, time.time())
        process.communicate("", timeout=60)
    ((program, counters),) = found.counters.items()
    assert (program.pid, program.device) == (process.pid, "simulator")
    assert (counters["runs_total"], counters["run_errors_total"]) == (6, 0)
    assert counters["device"] == pytest.approx(seconds, abs=1e-8)
    assert process.returncode == 0
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_an_error_at_the_start(runtime, load, tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "none" / "below", tmp_path / "file"):
        with pytest.raises(ValueError, match=r"option stats_dir: .*; it has to be .*stats_dir=off"):
            load(stats_dir=str(folder))


def test_a_link_in_the_way_is_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    code = (
        "import os, sys, delegate\n"
        "for end in ('prom', f'prom.{os.getpid()}'):\n"
        " os.symlink(sys.argv[2], f'{sys.argv[1]}/{os.getpid()}.{end}')\n"
        "delegate.load_delegate(device='simulator', stats_dir=sys.argv[1])\n"
        "assert not os.path.islink(f'{sys.argv[1]}/{os.getpid()}.prom')\n"
    )
    folder = tmp_path / "counters"
    folder.mkdir()
    subprocess.run([sys.executable, "-c", code, folder, victim], check=True, timeout=60)
    assert victim.read_text() == "mine"
    assert list(folder.iterdir()) == []
