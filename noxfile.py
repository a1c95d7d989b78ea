"""Sessions over Python versions and runtimes: ``nox -s runtimes`` tests every combination that can
be installed and ``nox -s table`` writes docs/hosts.md from what they found.

Needs nox and pythonX.Y on PATH for the versions to be tested; a version that is absent is skipped.
One combination: ``nox -s "runtimes(3.13, ai-edge-litert 2.3.0)"``.
"""

from __future__ import annotations

from pathlib import Path

import nox

ROOT = Path(__file__).parent
CACHE = ROOT / ".cache" / "hosts"

nox.options.sessions = ["runtimes", "table"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False
nox.options.envdir = str(CACHE / "nox")

PYTHONS = ("3.10", "3.11", "3.12", "3.13")

# Runtime -> Python versions it has wheels for. tflite-runtime ends at 3.11 and, as tensorflow 2.17,
# at NumPy 1; ai-edge-litert has wheels for 3.13 from 2.1, tensorflow from 2.20.
RUNTIMES = {
    "tflite-runtime==2.14.0": ("3.10", "3.11"),
    "ai-edge-litert==1.2.0": ("3.10", "3.11", "3.12"),
    "ai-edge-litert==1.4.0": ("3.10", "3.11", "3.12"),
    "ai-edge-litert==2.1.6": ("3.11", "3.12", "3.13"),
    "ai-edge-litert==2.3.0": ("3.10", "3.11", "3.12", "3.13"),
    "tensorflow-cpu==2.17.1": ("3.10", "3.11"),
    "tensorflow-cpu==2.19.1": ("3.11", "3.12"),
    "tensorflow-cpu==2.21.0": ("3.11", "3.13"),
}
# What meets a runtime; the rest of the tests does not depend on it.
TESTS = (
    "tests/hosts/test_behaviour.py",
    "tests/hosts/test_loader.py",
    "tests/native/test_new_shapes.py",
    "tests/native/test_plugin.py",
)
NUMPY_1 = ("tflite-runtime==2.14.0", "tensorflow-cpu==2.17.1")

COMBINATIONS = [
    nox.param(python, runtime, id=f"{python}, {runtime.replace('==', ' ')}")
    for runtime, pythons in RUNTIMES.items()
    for python in pythons
]


def wheel_for(session: nox.Session) -> Path:
    """The wheel of this source tree for the session's Python, built once per Python."""
    folder = CACHE / "wheels" / str(session.python)
    if not any(folder.glob("*.whl")):
        session.run(
            "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)
        )
    return next(folder.glob("*.whl"))


@nox.session
@nox.parametrize(("python", "runtime"), COMBINATIONS)
def runtimes(session: nox.Session, runtime: str) -> None:
    """Behaviour of the installed wheel under one runtime, and its outputs on four models."""
    numpy = "numpy<2" if runtime in NUMPY_1 else "numpy"
    session.install("--quiet", runtime, numpy, "pytest>=8", "pillow>=10", "flatbuffers>=23.5")
    session.install("--quiet", "--no-deps", "--force-reinstall", str(wheel_for(session)))
    results = CACHE / "matrix" / f"{session.python} {runtime.replace('==', ' ')}.json"
    results.unlink(missing_ok=True)
    # Isolated from this source tree: what is tested is what is installed.
    tests = session.create_tmp()
    session.run("python", "-c", _COPY, str(ROOT), tests, silent=True)
    with session.chdir(tests):
        session.run(
            "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, *session.posargs
        )
        session.run("python", "-m", "tests.hosts.matrix", "run", str(results),
                    str(ROOT.parent / "shared" / "models"))  # fmt: skip


@nox.session(python=False)
def table(session: nox.Session) -> None:
    """docs/hosts.md from the results of ``runtimes`` and of the C host."""
    session.run("python", "-m", "tests.hosts.matrix", "write", str(CACHE / "matrix"),
                str(ROOT / "docs" / "hosts.md"))  # fmt: skip


_COPY = """
import pathlib, shutil, sys
source, target = map(pathlib.Path, sys.argv[1:])
shutil.rmtree(target, ignore_errors=True)
for folder in ("tests", "models"):
    shutil.copytree(source / folder, target / folder)
shutil.copy(source / "pyproject.toml", target)
cache = source / ".cache" / "hosts" / "tfjs-tflite-node@0.0.2"
if cache.is_dir():
    (target / ".cache" / "hosts").mkdir(parents=True)
    (target / ".cache" / "hosts" / cache.name).symlink_to(cache)
"""
