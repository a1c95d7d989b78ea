"""Tests that packaging/upstream offers to other projects what this project has."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATCH = (ROOT / "packaging/upstream/frigate.patch").read_text(encoding="utf-8")
PLUGIN = ROOT / "rk3588_vision/frigate_rk3588.py"
HUNK = re.compile(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*\n((?:[ +\\-].*\n|\n)*)", re.M)


def changes(patch: str) -> dict[str, list[tuple[int, int, list[str]]]]:
    """Return the hunks of each file: lines before, lines after, and the text."""
    parts = re.split(r"^diff --git a/\S+ b/(\S+)\n", patch, flags=re.MULTILINE)[1:]
    return {
        name: [
            (int(before or 1), int(after or 1), text.splitlines())
            for before, after, text in HUNK.findall(body)
        ]
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


CHANGES = changes(PATCH)


def added(name: str) -> str:
    (hunk,) = CHANGES[name]
    return "\n".join(line.removeprefix("+") for line in hunk[2]) + "\n"


def without_docstring(text: str) -> str:
    tree = ast.parse(text)
    tree.body = tree.body[1:]
    return ast.dump(tree)


def test_the_patch_has_plugin_tests_and_page() -> None:
    assert sorted(Path(name).name for name in CHANGES) == [
        "object_detectors.md",
        "rk3588.py",
        "test_rk3588_detector.py",
    ]


@pytest.mark.parametrize("name", CHANGES)
def test_hunks_have_the_lines_that_they_announce(name: str) -> None:
    for before, after, lines in CHANGES[name]:
        assert sum(not line.startswith("+") for line in lines) == before
        assert sum(not line.startswith("-") for line in lines) == after


def test_the_plugin_is_ours() -> None:
    theirs = added("frigate/detectors/plugins/rk3588.py")
    assert without_docstring(theirs) == without_docstring(PLUGIN.read_text(encoding="utf-8"))


def test_the_page_names_the_fields_of_the_plugin() -> None:
    page = "\n".join(
        line for hunk in CHANGES["docs/docs/configuration/object_detectors.md"] for line in hunk[2]
    )
    assert "type: rk3588" in page
    for field in ("decoder", "options"):
        assert re.search(rf"^\+ +# {field}:", page, re.MULTILINE), field
