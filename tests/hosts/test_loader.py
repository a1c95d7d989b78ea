"""``librk3588_delegate.so`` in Python processes: forwarding, links, absent package, no symbols."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import delegate
from tests.aot.models import rich_model
from tests.hosts.conftest import clean_environment, compiled

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


def run_loading(library: Path, model: bytes, folder: Path) -> subprocess.CompletedProcess[str]:
    from delegate.host.runtimes import find_runtime

    (folder / "model.tflite").write_bytes(model)
    return subprocess.run(
        [sys.executable, "-c", LOADS, find_runtime().module.__name__, str(library),
         str(folder / "model.tflite")],
        cwd=folder, env=clean_environment(RK3588_DELEGATE_DEVICE="null"), capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip


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


def test_copy_runs_compiled_models_where_the_package_is_absent(tmp_path):
    """A copy finds no package beside itself; in a Python without one it works as in C hosts."""
    copy = tmp_path / "librk3588_delegate.so"
    shutil.copy(delegate.library_path(), copy)
    (tmp_path / "delegate").mkdir()
    (tmp_path / "delegate" / "__init__.py").write_text("raise ImportError('not this one')\n")
    model = tmp_path / "model.tflite"
    model.write_bytes(compiled(rich_model()))
    from delegate.host.runtimes import find_runtime

    script = WITHOUT_PACKAGE.format(folder=str(tmp_path)) + LOADS
    ran = subprocess.run(
        [sys.executable, "-c", script, find_runtime().module.__name__, str(copy), str(model)],
        cwd=tmp_path, env=clean_environment(RK3588_DELEGATE_DEVICE="null"), capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
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
    copy = tmp_path / "librk3588_delegate.so"
    shutil.copy(delegate.library_path(), copy)
    (tmp_path / "delegate").mkdir()
    (tmp_path / "delegate" / "__init__.py").write_text(f"raise {failure}\n")
    (tmp_path / "model.tflite").write_bytes(rich_model())
    from delegate.host.runtimes import find_runtime

    script = WITHOUT_PACKAGE.format(folder=str(tmp_path)) + LOADS
    ran = subprocess.run(
        [sys.executable, "-c", script, find_runtime().module.__name__, str(copy),
         str(tmp_path / "model.tflite")],
        cwd=tmp_path, env=clean_environment(RK3588_DELEGATE_DEVICE="null"), capture_output=True,
        text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 1, "a device was asked for by name"
    assert f"{told}: " in ran.stderr
    assert "not compiled ahead of time" not in ran.stderr
