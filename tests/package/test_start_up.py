"""Tests what a process loads that only runs programs, from the cache or compiled ahead of time, or
one command.

On small boards every module counts: neither the compiler nor the operators' records may be loaded.
"""

import json

import pytest

from delegate.cli import COMMANDS
from delegate.compile.cache import cache_key
from delegate.host.runtimes import find_runtime
from delegate.model.context_reader import graph_from_snapshot
from delegate.model.operator_options import RuntimeOptions, fields_of, stored_bytes
from delegate.model.stored_options import FOLLOW_RUNTIME, STORED
from delegate.ops import OPERATORS
from delegate.ops.shared.shape_arithmetic import NUMBERS_OPTIONS
from delegate.options import Options
from tests.aot.models import rich_model
from tests.hosts.conftest import compiled
from tests.processes import python

# Of the package; a hit reads the interpreter's tensors and nodes as a graph, for the entry's key.
COMPILED = {
    "delegate", "delegate._native", "delegate.chip",
    "delegate.compile", "delegate.compile.plugin",
    "delegate.errors", "delegate.host", "delegate.host.delegation", "delegate.host.library",
    "delegate.log", "delegate.model", "delegate.model.stored_options",
    "delegate.model.tflite_operators", "delegate.option_kinds", "delegate.options",
    "delegate.version",
}  # fmt: skip
FROM_CACHE = COMPILED | {
    "delegate.chip.chip", "delegate.chip.element", "delegate.chip.register_model",
    "delegate.compile.cache", "delegate.host.chosen",
    "delegate.host.kernels", "delegate.host.runtimes", "delegate.model.context_reader",
    "delegate.model.files", "delegate.model.flatbuffer_reader", "delegate.model.graph",
    "delegate.model.operator_options", "delegate.model.tensor_content",
    "delegate.model.tflite_schema",
    "delegate.npu",
    "delegate.partition", "delegate.partition.partitions",
}  # fmt: skip
LOADING = """
import json, sys
from {module} import Interpreter, load_delegate
before = set(sys.modules)
import delegate
options = {{"device": "simulator", "log_level": "error", "cache_dir": sys.argv[2]}}
plugin = load_delegate(delegate.library_path(), options)
interpreter = Interpreter(sys.argv[1], experimental_delegates=[plugin])
interpreter.allocate_tensors()
interpreter.invoke()
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.fixture
def loaded(tmp_path):
    """Modules that a process loads beside the runtime's own, for the bytes of a model."""

    def run(content: bytes, cache: str) -> set[str]:
        model = tmp_path / "model.tflite"
        model.write_bytes(content)
        source = LOADING.format(module=find_runtime().module.__name__)
        done = python("-c", source, model, cache)
        assert done.returncode == 0, done.stderr
        assert "rk3588-delegate" not in done.stderr
        return set(json.loads(done.stdout))

    return run


def own(modules: set[str]) -> set[str]:
    return {name for name in modules if name.split(".")[0] in ("delegate", "flatbuffers")}


def test_a_cache_hit_loads_no_compiler(loaded, tmp_path):
    cache = tmp_path / "cache"
    first = loaded(rich_model(), str(cache))
    assert "delegate.compile.compiler" in first
    assert list(cache.glob("*.rkc"))
    second = loaded(rich_model(), str(cache))
    assert own(second) == FROM_CACHE
    assert not {"tempfile", "difflib", "base64"} & second


def test_a_compiled_model_loads_no_reader(loaded):
    assert own(loaded(compiled(rich_model()), "off")) == COMPILED


def test_the_table_has_every_operator():
    assert set(STORED) == {*OPERATORS, *NUMBERS_OPTIONS}
    assert {n for n, item in OPERATORS.items() if item.follows_runtime} == FOLLOW_RUNTIME


@pytest.mark.parametrize("name", [n for n, item in OPERATORS.items() if item.options is not None])
def test_every_field_is_in_the_key_and_nothing_between(name):
    kind = OPERATORS[name].options
    size = max(offset + bytes_ for offset, bytes_ in STORED[name]) if STORED[name] else 0

    def key(content: bytes) -> str:
        snapshot = {"tensors": [], "nodes": [{
            "index": 0, "builtin_code": 0, "custom_name": "", "version": 1, "inputs": [],
            "outputs": [], "options": content,
        }]}  # fmt: skip
        graph = graph_from_snapshot(snapshot)
        node = graph.nodes[0]
        changed = type(node)(0, name, (), (), RuntimeOptions(content))
        return cache_key(type(graph)((), (changed,)), Options(numerics="exact"))

    plain = bytes(size + 8)
    fields = [
        range(field.offset, field.offset + stored_bytes(field)) for _, field in fields_of(kind)
    ]
    inside = {position for field in fields for position in field}
    for position in range(size + 8):
        content = bytearray(plain)
        content[position] = 1
        assert (key(bytes(content)) != key(plain)) == (position in inside), position


@pytest.mark.parametrize("command", ["library-path", "compile", "doctor"])
def test_a_command_loads_no_other_one(command):
    code = f"""
import contextlib, json, sys
from delegate.cli import main
with contextlib.redirect_stdout(None), contextlib.suppress(SystemExit):
    main(["{command}", "--help"])
print(json.dumps([name for name in sys.modules if name.startswith("delegate.")]))
"""
    done = python("-c", code, check=True)
    loaded = set(json.loads(done.stdout))
    others = {f"delegate.cli.{name.replace('-', '_')}" for name in COMMANDS if name != command}
    assert not loaded & others
    assert not {"delegate.compile.compiler", "delegate.ops", "rk3588_vision"} & loaded


def test_compiling_loads_the_operators_of_the_model_only():
    code = """
import sys
import numpy as np
from delegate.compile.compiler import compile_model
from rk3588_conformance.builder import Net
from delegate.model.graph import DType, Quantization
from delegate.options import Options
builder = Net("one")
unit = Quantization((0.5,), (3,))
x = builder.input("x", (1, 4, 5, 16), DType.INT8, unit)
y = builder.tensor("y", (1, 4, 5, 16), DType.INT8, unit)
builder.operator("TANH", (x,), (y,))
builder.output(y)
before = set(sys.modules)
compile_model(builder.build(), Options(numerics="exact"))
loaded = set(sys.modules) - before
print([op for op in ("tanh", "gelu", "batch_matmul") if f"delegate.ops.{op}" in loaded])
"""
    done = python("-c", code, check=True)
    assert done.stdout == "['tanh']\n"
