"""``strict`` refuses what the CPU would do, but for what ``strict_allows`` names."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from delegate.errors import OptionError, Rejection, UnsupportedError
from delegate.host.delegation import require_all
from delegate.model.graph import DType, Graph, Node, Tensor
from delegate.model.tflite_operators import BUILTIN_OPERATORS
from delegate.ops.shared.subgraphs import SUBGRAPH_RUNNERS
from delegate.options import MAX_COUNT, Options
from delegate.partition.cost import known_cpu_us
from tests.cli.conftest import IMAGE, MODEL, Run, run

__all__ = ["run"]  # the fixture

REJECTIONS = (
    Rejection(7, "SOFTMAX", "operator_supported", "it is SOFTMAX"),
    Rejection(9, "CUSTOM:Post", "operator_supported", "it is CUSTOM:Post"),
)


def checked(**options: str) -> None:
    require_all(REJECTIONS, Options.from_mapping(options, {}))


@pytest.mark.parametrize("allows", ["SOFTMAX,CUSTOM", "7,9", "9,SOFTMAX"])
def test_what_is_named_may_stay(allows: str) -> None:
    checked(strict="true", strict_allows=allows)


@pytest.mark.parametrize(
    ("allows", "named"), [("", "node 7"), ("SOFTMAX", "node 9"), ("9", "node 7"), ("1", "node 7")]
)
def test_the_others_are_refused_with_the_remedy(allows: str, named: str) -> None:
    with pytest.raises(UnsupportedError, match=f"strict: {named}") as error:
        checked(strict="true", strict_allows=allows)
    assert "strict_allows=" in str(error.value)


@pytest.mark.parametrize(("us", "allows", "passes"), [
    (15, "", True), (14, "", False), (10, "SOFTMAX", True), (9, "7", False), (0, "7,9", True),
])  # fmt: skip
def test_what_is_not_named_may_take_so_long(us: int, allows: str, passes: bool) -> None:
    """Node 7 takes 4.5 us and node 9 takes 10 us: 15 us rounded up."""
    times = {7: 4.5, 9: 10.0}
    options = Options.from_mapping(
        {"strict": "true", "strict_allows": allows, "strict_allows_us": us}, {}
    )
    if passes:
        require_all(REJECTIONS, options, times.__getitem__)
        return
    left = sum(time for node, time in times.items() if str(node) not in allows)
    with pytest.raises(UnsupportedError, match=f"strict_allows_us={math.ceil(left)}$"):
        require_all(REJECTIONS, options, times.__getitem__)


def test_what_nobody_has_a_model_of_has_to_be_named() -> None:
    with pytest.raises(UnsupportedError) as error:
        checked(strict="true", strict_allows_us=str(MAX_COUNT))
    assert str(error.value).endswith("strict_allows=CUSTOM,SOFTMAX")


def node_us(op: str, shape: tuple[int, ...], signature: tuple[int, ...] = ()) -> float:
    tensors = tuple(
        Tensor(index, name, shape, DType.INT8, shape_signature=signature)
        for index, name in enumerate(("in", "out"))
    )
    return known_cpu_us(Graph(tensors, (Node(5, op, (0, -1), (1,)),)), 5)


def test_times_are_known_of_nodes_whose_work_the_model_tells() -> None:
    assert node_us("SOFTMAX", (1, 1000)) == 3.0  # a microsecond of elements, two of the runtime
    assert node_us("SOFTMAX", (1, 1000), (-1, 1000)) == 3.0  # the batch is the one it has now
    for op in ("CUSTOM:Post", "WHILE", "IF", "CALL_ONCE", "STABLEHLO_WHILE"):
        assert node_us(op, (1, 1000)) == math.inf
    assert node_us("SOFTMAX", (1, 10), (1, -1)) == math.inf
    assert node_us("SOFTMAX", (1, -1)) == math.inf
    assert set(BUILTIN_OPERATORS) >= SUBGRAPH_RUNNERS


def test_it_says_nothing_without_strict_and_takes_names_alone() -> None:
    checked(strict_allows="ADD")
    checked()
    with pytest.raises(OptionError, match="strict_allows"):
        checked(strict_allows="ADD;MUL")


def test_commands_run_a_model_whose_rest_is_allowed(run: Run) -> None:
    strict = ("-O", "strict=true", "--device", "simulator")
    refused = run("classify", IMAGE, "--model", MODEL, *strict)
    assert refused.code == 4
    assert "strict_allows=SOFTMAX" in refused.err
    allowed = run("classify", IMAGE, "--model", MODEL, *strict, "-O", "strict_allows=SOFTMAX")
    assert allowed.code == 0, allowed


def test_a_compiled_model_was_checked_when_it_was_compiled(run: Run, tmp_path: Path) -> None:
    path, strict = tmp_path / "compiled.tflite", ("-O", "strict=true")
    assert run("compile", MODEL, "-o", path, *strict, "-O", "strict_allows=SOFTMAX").code == 0
    where = ("--model", path, "--device", "simulator")
    refused = run("classify", IMAGE, *where, *strict)
    assert refused.code == 4
    assert "compile it under strict, which names them, and load it without" in refused.err
    assert run("classify", IMAGE, *where).code == 0


@pytest.mark.parametrize("cache", [False, True])
def test_commands_and_programs_of_the_cache_ask_for_the_time(
    run: Run, tmp_path: Path, cache: bool
) -> None:
    """The runtime's graph and that of the file have the same times."""
    strict = ["-O", "strict=true", "--device", "simulator"]
    if cache:
        strict += ["-O", f"cache_dir={tmp_path}"]
    compiled = run("compile", MODEL, *strict[:2])
    refused = run("classify", IMAGE, "--model", MODEL, *strict)
    assert compiled.code == refused.code == 4
    us = int(refused.err.rpartition("strict_allows_us=")[2])
    assert us == int(compiled.err.rpartition("strict_allows_us=")[2])
    for enough, code in ((us, 0), (us - 1, 4)):
        allowed = ["-O", f"strict_allows_us={enough}"]
        for _ in range(2):
            assert run("classify", IMAGE, "--model", MODEL, *strict, *allowed).code == code
        assert run("compile", MODEL, *strict[:2], *allowed).code == code


def test_the_simulator_is_announced_once_per_process() -> None:
    code = (
        "import sys, delegate\n"
        "try:\n from tflite_runtime.interpreter import Interpreter\n"
        "except ImportError:\n from ai_edge_litert.interpreter import Interpreter\n"
        "for _ in range(3):\n"
        " delegates = [delegate.load_delegate()]\n"
        " Interpreter(sys.argv[1], experimental_delegates=delegates).allocate_tensors()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(MODEL)],
        capture_output=True, text=True, timeout=120, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stderr.count("embedded simulator") == 1, done.stderr
