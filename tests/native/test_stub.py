"""delegate/_native.pyi names what the module has."""

import ast
from pathlib import Path

import delegate
from delegate import _native


def public(names) -> set[str]:
    return {name for name in names if not name.startswith("_")}


def test_the_stub_names_what_the_module_has():
    tree = ast.parse((Path(delegate.__file__).parent / "_native.pyi").read_text())
    defined = {
        node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    }
    assert set(defined) == public(vars(_native))
    members = defined["Executable"].body
    assert public(m.name for m in members if isinstance(m, ast.FunctionDef)) == public(
        vars(_native.Executable)
    )
