"""A process in C that loads a Python to compile with, because RK3588_LIBPYTHON names one."""

import os

import pytest

import delegate
from tests.aot.models import rich_model
from tests.hosts.conftest import compiled, run_in_python


def test_model_is_compiled_while_it_is_loaded(host, embedding):
    content, expected = run_in_python(rich_model())
    ran = host(rich_model(), content, environment=embedding, device="simulator", log_level="info")
    assert ran.report["ok"], ran.err
    assert ran.report["libpython"]
    assert "4 of 5 nodes delegated in 2 partitions" in ran.err  # all but the RESHAPE
    assert ran.output == expected


def test_compiled_model_runs_as_without_python(host, embedding):
    content, expected = run_in_python(rich_model())
    ran = host(compiled(rich_model()), content, environment=embedding, device="simulator")
    assert ran.report["ok"], ran.err
    assert ran.output == expected


def test_threads_share_the_python(host, embedding):
    content, _ = run_in_python(rich_model())
    ran = host(rich_model(), content, threads=4, environment=embedding, device="simulator")
    assert ran.report["ok"], ran.err


def test_error_of_the_compiler_reaches_a_host_in_c(host, embedding):
    ran = host(rich_model(), environment=embedding, device="null", strict="true")
    assert "strict: node" in ran.err
    assert not ran.report["ok"], ran.err


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nowhere/libpython3.so", "/nowhere/libpython3.so: cannot open shared object file"),
        ("library", "is no libpython"),
    ],
)
def test_library_that_is_no_python_is_named(host, path, text):
    environment = {"RK3588_LIBPYTHON": delegate.library_path() if path == "library" else path}
    assert host(compiled(rich_model()), environment=environment, device="null").report["ok"]
    ran = host(rich_model(), environment=environment)
    assert not ran.report["ok"], ran.err
    assert not ran.report["libpython"]
    assert f"RK3588_LIBPYTHON cannot be loaded ({environment['RK3588_LIBPYTHON']}" in ran.err
    assert text in ran.err


def test_a_pipe_that_is_no_python_is_not_waited_for(host, tmp_path):
    os.mkfifo(tmp_path / "libpython3.so")
    environment = {"RK3588_LIBPYTHON": str(tmp_path / "libpython3.so")}
    ran = host(rich_model(), environment=environment)
    assert not ran.report["ok"], ran.err
    assert "libpython3.so is no plain file" in ran.err


def test_python_without_the_package_is_named(host, embedding, tmp_path):
    """Python may be of another version or environment: compiled programs still run."""
    (tmp_path / "delegate").mkdir()
    (tmp_path / "delegate" / "__init__.py").write_text("")
    # An embedded Python takes the packages of the environment whose python is first on PATH.
    environment = {**embedding, "PYTHONPATH": str(tmp_path), "PATH": os.defpath}
    ran = host(compiled(rich_model()), environment=environment, device="null")
    assert ran.report["ok"], ran.err
    ran = host(rich_model(), environment=environment)
    assert not ran.report["ok"], ran.err
    assert "the compiler cannot be imported (No module named 'delegate._native')" in ran.err
