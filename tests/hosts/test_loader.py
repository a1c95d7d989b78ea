"""``librk3588_delegate.so`` in Python processes: forwarding, links, absent package, no symbols."""

import shutil
import subprocess
from pathlib import Path

import pytest

import delegate
from delegate.host.runtimes import find_runtime
from tests.aot.models import rich_model
from tests.hosts.conftest import clean_environment, compiled
from tests.processes import python

LOADS = """
import sys
sys.path = [p for p in sys.path if p]
runtime = __import__(sys.argv[1], fromlist=["x"])
loaded = runtime.load_delegate(sys.argv[2])
interpreter = runtime.Interpreter(model_path=sys.argv[3], experimental_delegates=[loaded])
interpreter.allocate_tensors()
interpreter.invoke()
print("delegate._native" in sys.modules, len(interpreter._get_ops_details()))
"""


def run_loading(
    library: Path, model: bytes, folder: Path, before: str = ""
) -> subprocess.CompletedProcess[str]:
    path = folder / "model.tflite"
    path.write_bytes(model)
    environment = clean_environment(RK3588_DELEGATE_DEVICE="null")
    words = ("-c", before + LOADS, find_runtime().module.__name__, library, path)
    return python(*words, cwd=folder, env=environment, timeout=60)


def symbols(*arguments: str) -> set[str]:
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    listed = subprocess.run(
        ["nm", "-D", *arguments, delegate.library_path()], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}


def test_library_needs_no_python_and_no_runtime():
    needed = symbols("--undefined-only")
    assert needed
    assert not {name for name in needed if name.startswith(("Py", "_Py", "TfLite", "Tf"))}


def test_library_exports_what_hosts_and_litert_s_doors_look_up_only():
    assert symbols("--defined-only") == {
        "rk3588_litert_compiler_interface",
        "rk3588_litert_dispatch_api",
        "rk3588_litert_dispatch_interface",
        "tflite_plugin_create_delegate",
        "tflite_plugin_destroy_delegate",
    }


def test_link_at_the_path_of_another_delegate(tmp_path):
    folder = tmp_path / "usr" / "lib" / "teflon"
    folder.mkdir(parents=True)
    link = folder / "libteflon.so"
    link.symlink_to(delegate.library_path())
    ran = run_loading(link, rich_model(), tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("True ")


# A package installed for editing is found by an importer of its own, ahead of sys.path.
WITHOUT_PACKAGE = """
import sys
sys.path.insert(0, {folder!r})
sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in type(f).__module__]
"""


def run_copy(folder: Path, model: bytes, failure: str) -> subprocess.CompletedProcess[str]:
    """A copy of the library, which finds no package beside itself but one that fails."""
    copy = folder / "librk3588_delegate.so"
    shutil.copy(delegate.library_path(), copy)
    (folder / "delegate").mkdir()
    (folder / "delegate" / "__init__.py").write_text(f"raise {failure}\n")
    return run_loading(copy, model, folder, WITHOUT_PACKAGE.format(folder=str(folder)))


def test_copy_runs_compiled_models_where_the_package_is_absent(tmp_path):
    """In a Python without the package it works as in C hosts."""
    ran = run_copy(tmp_path, compiled(rich_model()), "ImportError('not this one')")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("False ")


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        ("ImportError('not this one')", "the compiler cannot be imported (not this one)"),
        ("MemoryError", "memory ran out while the compiler was loaded (<class 'MemoryError'>)"),
        (
            "ImportError('x.so: failed to map segment')",
            "memory ran out while the compiler was loaded (x.so: failed to map segment)",
        ),
    ],
)
def test_missing_compiler_is_explained(tmp_path, failure, told):
    ran = run_copy(tmp_path, rich_model(), failure)
    assert ran.returncode == 1, "a device was asked for by name"
    assert f"{told}: " in ran.stderr
    assert "not compiled ahead of time" not in ran.stderr
