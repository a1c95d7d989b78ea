"""The C host, built once, and compiled models."""

import json
import os
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import delegate
from delegate.compile.aot.rewrite import OPERATOR_NAME, compile_ahead_of_time
from delegate.host.runtimes import find_runtime
from delegate.model.flatbuffer_tables import write_file
from delegate.model.tflite_reader import read_graph
from delegate.model.tflite_schema import ModelSlot, SubGraphSlot
from delegate.options import Options
from rk3588_conformance.cut_model import parse
from tests.hosts.c_library import UnavailableError, build_host

HOST_SECONDS = 120


def clean_environment(**variables: str) -> dict[str, str]:
    """An environment without options of the delegate and without a way to find Python's files."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RK3588_", "PYTHON", "VIRTUAL_ENV", "LD_"))
    }
    return {**kept, **variables}


@dataclass(frozen=True)
class HostRun:
    """The outcome of a run of the host. ``report``: its JSON, ``output``: bytes of all outputs."""

    code: int
    report: dict[str, Any]
    output: bytes
    err: str


Host = Callable[..., HostRun]


@pytest.fixture(scope="session")
def host_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return build_host(tmp_path_factory.mktemp("c_host") / "c_host")
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def host(host_program: Path, tmp_path: Path) -> Host:
    """Runs a model once in the C host: ``host(model, input_bytes, device="null", ...)``."""

    def run(
        model: bytes,
        content: bytes | None = None,
        *,
        library: str = "",
        threads: int = 0,
        environment: dict[str, str] | None = None,
        **options: str,
    ) -> HostRun:
        (tmp_path / "model.tflite").write_bytes(model)
        source, target = tmp_path / "input", tmp_path / "output"
        source.write_bytes(content or b"")
        target.unlink(missing_ok=True)
        done = subprocess.run(
            [str(host_program), *(["--threads", str(threads)] if threads else []),
             library or delegate.library_path(), str(tmp_path / "model.tflite"),
             "-" if content is None else str(source), str(target),
             *(f"{key}={value}" for key, value in options.items())],
            env=clean_environment(**(environment or {})), capture_output=True, text=True,
            timeout=HOST_SECONDS, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout) if done.stdout else {}
        output = target.read_bytes() if target.exists() else b""
        return HostRun(done.returncode, report, output, done.stderr)

    return run


def compiled(model: bytes | Path) -> bytes:
    """``model`` compiled ahead of time, also where the CPU would be as fast."""
    return compile_ahead_of_time(model, Options(numerics="exact", deny_ops=())).content


def outputs_of_first_program(model: bytes, most: int | None = None) -> bytes:
    """A compiled model whose outputs are the first ``most`` of its first compiled operator."""
    root = parse(model)
    (graph,) = root.children(ModelSlot.SUBGRAPHS)
    first = next(n for n in read_graph(model).nodes if n.op == f"CUSTOM:{OPERATOR_NAME}")
    graph.set_integers(SubGraphSlot.OUTPUTS, first.outputs[:most])
    root.fields.pop(ModelSlot.SIGNATURE_DEFS, None)
    return write_file(root, b"TFL3")


def run_in_python(model: bytes | Path, seed: int = 0) -> tuple[bytes, bytes]:
    """The bytes of a random input and of the outputs, on the simulator, in this process."""
    runtime = find_runtime()
    plugin = runtime.load_delegate(
        delegate.library_path(), {"device": "simulator", "log_level": "error"}
    )
    interpreter = runtime.interpreter(model, [plugin])
    rng = np.random.default_rng(seed)
    content = b""
    for item in interpreter.get_input_details():
        values = rng.integers(0, 256, item["shape"]).astype(np.uint8).view(item["dtype"])
        interpreter.set_tensor(item["index"], values)
        content += values.tobytes()
    interpreter.invoke()
    outputs = [
        interpreter.get_tensor(item["index"]).tobytes() for item in interpreter.get_output_details()
    ]
    return content, b"".join(outputs)


@pytest.fixture(scope="module")
def embedding(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment that embeds the Python that runs these tests, with its packages: also those
    installed for editing, which only folders of ``site`` have.
    """
    folder, name = (sysconfig.get_config_var(key) for key in ("LIBDIR", "INSTSONAME"))
    library = Path(folder or "", name or "none")
    if library.suffix == ".a" or not library.is_file():
        pytest.skip(f"this Python has no shared library: {library}")
    packages = str(Path(np.__file__).parents[1])
    start = tmp_path_factory.mktemp("start")
    (start / "sitecustomize.py").write_text(f"import site\nsite.addsitedir({packages!r})\n")
    folders = (str(start), str(Path(delegate.__file__).parents[1]))
    return {
        "RK3588_LIBPYTHON": str(library),
        "PYTHONPATH": os.pathsep.join(folders),
        "RK3588_DELEGATE_NUMERICS": os.environ["RK3588_DELEGATE_NUMERICS"],
        "RK3588_DELEGATE_DENY_OPS": os.environ["RK3588_DELEGATE_DENY_OPS"],
    }
