"""The floors of the packages, and what has one home: imports run downwards and in no circle.

What stands here is docs/architecture.md's picture. Imports inside functions count like others.
"""

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from delegate.model.tflite_operators import BUILTIN_OPERATORS

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("delegate", "rk3588_conformance", "rk3588_vision")
OF_PYTHON = (*PACKAGES, "benchmarks", "tests", "tools")
FLOORS = (
    ("errors", "log", "option_kinds", "progress", "version", "_native", "chip"),
    ("model",),
    ("options", "lower"),
    ("ops", "npu", "host"),
    ("partition", "rk3588_vision"),
    ("compile",),
    ("insight", "__init__"),
    ("rk3588_conformance",),
    ("cli", "__main__"),
)
"""The floors from the ground up; rooms of one floor do not know each other. The packages beside
``delegate`` are one room each. ``__main__`` is the door of ``cli``.
"""
GENERATED = "rk3588_conformance.generated"
REFERENCES = "rk3588_conformance.reference"
NATIVE_FLOORS = (
    ("span", "text", "digest", "chip"),
    ("sim",),
    ("host", "rocket", "rknpu"),
    ("program",),
    ("evidence", "tflite"),
    ("python", "loader", "fuzz"),
    ("litert",),
)


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Return the packages' files by name ("delegate.npu.program")."""
    found = {}
    for path in sorted(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        is_room = parts[-1] == "__init__" and parts != ("delegate", "__init__")
        name = ".".join(parts[:-1] if is_room else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(tree: ast.Module, *, deferred: bool) -> Iterator[str]:
    """Yield the packages' files that a file imports; not ``deferred``: while it is loaded."""
    for node in ast.walk(tree) if deferred else at_load(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.split(".")[0] in PACKAGES:
                yield file_of(name)


def at_load(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_load(child)


def file_of(name: str) -> str:
    """The file that ``name`` means: itself, or the file that defines it."""
    if name.startswith("delegate._native"):
        return "delegate._native"
    while name not in modules():
        name = name.rpartition(".")[0]
        if name in ("delegate", ""):
            return "delegate.__init__"
    return name


def room(name: str) -> str:
    package, _, rest = name.partition(".")
    return rest.partition(".")[0] if package == "delegate" else package


def test_every_room_has_a_floor() -> None:
    rooms = {room(name) for name in modules()} | {"_native"}
    assert rooms == {name for floor in FLOORS for name in floor}
    assert len([floor for floor in FLOORS if set(floor) - set(PACKAGES)]) <= 8
    assert len([name for name in rooms if (ROOT / f"delegate/{name}.py").is_file()]) <= 8
    assert set(PACKAGES[1:]) <= rooms


def test_every_arrow_between_rooms_runs_down() -> None:
    height = {name: number for number, floor in enumerate(FLOORS) for name in floor}
    for name, tree in modules().items():
        for other in imports(tree, deferred=True):
            if room(other) != room(name) and (room(name), room(other)) != ("__main__", "cli"):
                assert height[room(other)] < height[room(name)], f"{name} imports {other}"


@pytest.mark.parametrize("deferred", [False, True])
def test_no_files_import_each_other_in_a_circle(deferred: bool) -> None:
    graph = {
        name: set(imports(tree, deferred=deferred)) - {name} for name, tree in modules().items()
    }
    if deferred:  # a generator and its steps name each other's types
        graph = {name: found for name, found in graph.items() if GENERATED not in name}
    assert circle(graph) is None


def circle(graph: dict[str, set[str]]) -> object:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def native_includes() -> dict[Path, set[Path]]:
    """Return which files of the native part include which."""
    found = {}
    for path in (ROOT / "native").rglob("*"):
        if path.suffix in (".cpp", ".h", ".inc", ".c"):
            named = re.findall(r'^#include "(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
            places = {p / n for n in named for p in (ROOT / "native", path.parent)}
            found[path] = {place for place in places if place.is_file()}
    assert len(found) > 100
    return found


def test_native_rooms_include_downwards_and_files_in_no_circle() -> None:
    includes = native_includes()
    assert circle({str(p): {str(q) for q in found} for p, found in includes.items()}) is None
    order = [name for floor in NATIVE_FLOORS for name in floor]
    for path, found in includes.items():
        for other in found:
            above, below = (p.relative_to(ROOT / "native").parts[0] for p in (path, other))
            above, below = (name.partition(".")[0] for name in (above, below))
            assert order.index(below) <= order.index(above), f"{path} includes {other}"


def operator_names_decided_by(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield where code depends on an operator's name: comparisons, sets, keys and patterns with the
    name of a builtin, and every comparison for equality with a node's ``op``.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_equality = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
            if is_equality and any(isinstance(s, ast.Attribute) and s.attr == "op" for s in sides):
                yield node
            places: list[ast.AST] = list(sides)
        elif isinstance(node, ast.Set):
            places = list(node.elts)
        elif isinstance(node, ast.Dict):
            places = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Subscript):
            places = [node.slice]
        elif isinstance(node, ast.MatchValue):
            places = [node.value]
        else:
            continue
        for place in places:
            for leaf in ast.walk(place):
                if isinstance(leaf, ast.Constant) and leaf.value in BUILTIN_OPERATORS:
                    yield node


@pytest.mark.parametrize(
    "text",
    [
        'node.op == "ADD"',
        "n.op != NAME",
        'x in ("CONV_2D", y)',
        '{"PAD": 1}',
        '{"PAD"}',
        't["MUL"]',
    ],
)
def test_a_decision_by_name_would_be_found(text: str) -> None:
    assert list(operator_names_decided_by(ast.parse(text)))


def test_only_operators_files_decide_by_an_operators_name() -> None:
    for name, tree in modules().items():
        if room(name) != "ops" and not name.startswith((GENERATED, REFERENCES)):
            found = [ast.unparse(node) for node in operator_names_decided_by(tree)]
            assert not found, f"{name}: {found}"


def test_requantisation_is_read_in_one_file() -> None:
    """Only the prover says what a requantisation computes, and why a pipeline may stand for it."""
    text = (ROOT / "delegate/lower/numerics/prover.py").read_text(encoding="utf-8")
    assert "**Theorem.**" in text
    assert len(text.splitlines()) <= 160


RIDDLE = re.compile(r"(Of|What|Those|That|From|Whose|Where|Whether|How|Why|Which|Who|Whatever)\b")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of docstrings, of nested functions and of fields as well."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text.lstrip()


def test_no_docstring_begins_as_a_riddle() -> None:
    """A sentence names its subject, or begins with its verb."""
    found = []
    for path in (path for name in OF_PYTHON for path in (ROOT / name).rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            if RIDDLE.match(text):
                found.append(f"{path.relative_to(ROOT)}:{line}: {text[:60]}")
    assert not found
