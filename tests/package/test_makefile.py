"""Tests what `make` does again after a change."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = [".venv", ".venv-litert"]
FILES = ("Makefile", "pyproject.toml", "CMakeLists.txt")


@pytest.fixture
def clone(tmp_path):
    """The files that installations depend on, with both environments installed."""
    if shutil.which("make") is None:
        pytest.skip("no make")
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    folders = ("native/loader", "tools/board/native", "rk3588_conformance", "rk3588_vision")
    for name in (*folders, "delegate/lower/tiling"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "delegate/lower/tiling/tiles.py").touch()
    for name in ENVIRONMENTS:
        python = tmp_path / name / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\n")
        python.chmod(0o755)
        (tmp_path / name / "created").touch()
        packages = tmp_path / name / "lib/python3.11/site-packages"
        (packages / "delegate").mkdir(parents=True)
        (packages / "_editable_rk3588.py").touch()
    assert installs(tmp_path) == ENVIRONMENTS
    return tmp_path


def installs(clone: Path) -> list[str]:
    """The environments that `make` installs into; their Python does nothing."""
    before = {name: stamp_of(clone, name) for name in ENVIRONMENTS}
    targets = [f"{name}/installed" for name in ENVIRONMENTS]
    subprocess.run(["make", *targets], cwd=clone, check=True, capture_output=True)
    return [name for name in ENVIRONMENTS if stamp_of(clone, name) != before[name]]


def stamp_of(clone: Path, name: str) -> int | None:
    stamp = clone / name / "installed"
    return stamp.stat().st_mtime_ns if stamp.exists() else None


def test_an_installation_is_made_once(clone):
    assert installs(clone) == []


@pytest.mark.parametrize("change", ["moved", "added", "added beside", "removed"])
def test_modules_that_moved_are_installed_again(clone, change):
    old = clone / "delegate/lower/tiling/tiles.py"
    if change == "moved":
        old.rename(clone / "delegate/lower/tiles.py")
    elif change == "added":
        (clone / "delegate/lower/bands.py").touch()
    elif change == "added beside":
        (clone / "rk3588_vision/zoo.py").touch()
    else:
        old.unlink()
    assert installs(clone) == ENVIRONMENTS


def test_a_module_that_changed_is_not(clone):
    (clone / "delegate/lower/tiling/tiles.py").write_text("TILES = 1\n")
    assert installs(clone) == []


@pytest.mark.parametrize("is_beside", [False, True])
def test_all_tests_run_in_a_copy_where_the_shared_folder_is(clone, is_beside):
    tree = clone / "some" / "tree"
    tree.mkdir(parents=True)
    for name in FILES:
        shutil.copy(clone / name, tree)
    if is_beside:
        tree.with_name("shared").mkdir()
    command = ["make", "-n", "PYTHON=python3", "test"]
    told = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout
    assert ("tools/alone.py" in told) == is_beside
    assert "-m pytest" in told
