"""Finds the tests that read the folder beside the repository.

A test reads it if what it mentions leads to ``SHARED`` of shared_folder.py: names of its module and
of those that this one imports from ``tests``, and fixtures. tests/conftest.py marks such tests.
"""

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
Name = tuple[str, str]
"""A module and one of its top-level names, or ``ALL`` of them."""
ALL = "*"
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SOURCE: Name = ("tests.shared_folder", "SHARED")


def is_reader(module: str, test: str) -> bool:
    """Return whether a top-level test, or class of tests, of a module reads the folder."""
    return not readers(ROOT).isdisjoint({(module, "pytestmark"), (module, test)})


@functools.cache
def readers(root: Path) -> frozenset[Name]:
    """Return the names in all modules of ``root``/tests that lead to the folder."""
    users = defaultdict(set)
    for path in (root / "tests").rglob("*.py"):
        for user, used in _uses(path, root):
            users[used].add(user)
    found, left = {SOURCE}, [SOURCE]
    while left:
        new = users[left.pop()] - found
        found |= new
        left += new
    return frozenset(found)


def _uses(path: Path, root: Path) -> Iterator[tuple[Name, Name]]:
    """Yield pairs: a name of a module, and one that it is made of."""
    module = _dotted(path, root)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for statement in tree.body:
        mentioned = _mentioned(statement)
        for name in _bound(statement):
            yield from (((module, name), (module, used)) for used in mentioned)
            yield (module, ALL), (module, name)
    for node in ast.walk(tree):  # imports inside functions count as the module's
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tests":
            for alias in node.names:
                bound = module, alias.asname or alias.name
                yield bound, (str(node.module), alias.name)
                yield bound, (f"{node.module}.{alias.name}", ALL)
    for conftest in (folder / "conftest.py" for folder in path.parents if folder != root):
        if conftest.is_file() and conftest != path:
            for name in _mentioned(tree):  # fixtures
                yield (module, name), (_dotted(conftest, root), name)


def _dotted(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _bound(statement: ast.stmt) -> set[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    inner = (node for node in ast.walk(statement) if isinstance(node, COMPREHENSIONS))
    own = {name for node in inner for name in ast.walk(node)}  # of the comprehensions alone
    names = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store) and node not in own}


def _mentioned(tree: ast.AST) -> set[str]:
    """Return the names in a tree, parameters included: they may be fixtures."""
    nodes = list(ast.walk(tree))
    parameters = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return parameters | {node.id for node in nodes if isinstance(node, ast.Name)}
