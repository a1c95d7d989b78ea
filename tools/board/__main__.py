"""``make board``: the kernel with its own rocket driver in a virtual machine, on emulated NPU
cores, and the product in it (docs/emulated_board.md).

python -m tools.board [CASE ...]

Everything is fetched or built below ``.cache/board`` (``BOARD_CACHE``); each step says how long it
took. ``BOARD_KERNEL``: a folder with Image and the modules (default: ../shared/board/kernel; the
page says how to build one). Exit code 3: something that it needs is not to be had.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tools.board.answers import differences, parse, prepare
from tools.board.image import PROJECT, fetch_site, make_root, write_initrd
from tools.board.machine import Machine
from tools.board.packages import (
    CROSS_TOOLS,
    GUEST,
    HOST_TOOLS,
    UnavailableError,
    relocate_linker_scripts,
    run,
    unpack,
)

CACHE = Path(os.environ.get("BOARD_CACHE", PROJECT / ".cache/board"))
SHARED = PROJECT / ".." / "shared"
KERNEL = Path(os.environ.get("BOARD_KERNEL", SHARED / "board/kernel"))
EXIT_UNAVAILABLE = 3
TIMEOUT_S = float(os.environ.get("BOARD_TIMEOUT", "3600"))


@contextlib.contextmanager
def step(title: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    print(f"{time.monotonic() - start:7.1f} s  {title}", flush=True)


def ninja_build(folder: Path, targets: tuple[str, ...], *defines: str, **environ: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # cmake and ninja
    environment = {**os.environ, "PATH": path, **environ}
    run(["cmake", "-S", str(PROJECT), "-B", str(folder), "-G", "Ninja",
         *(f"-D{define}" for define in defines)], environment)  # fmt: skip
    run(["cmake", "--build", str(folder), "--target", *targets], environment)


def build_product(folder: Path, tools: Path, packages: Path) -> Path:
    """The product's libraries for aarch64; returns their folder."""
    here = [str(Path(sys.executable).parent), str(tools / "usr/bin"), os.environ["PATH"]]
    libraries = ":".join(str(p) for p in (tools / "usr/lib").glob("*-linux-gnu"))
    pybind11 = run([sys.executable, "-m", "pybind11", "--cmakedir"]).strip()
    include = packages / "usr/include"
    defines = [
        f"pybind11_DIR={pybind11}", f"Python_EXECUTABLE={sys.executable}",
        f"Python_INCLUDE_DIR={include}/python3.11",
        "PYTHON_MODULE_EXTENSION=.cpython-311-aarch64-linux-gnu.so",
    ]  # fmt: skip
    if platform.machine() != "aarch64":
        defines += [
            "CMAKE_SYSTEM_NAME=Linux", "CMAKE_SYSTEM_PROCESSOR=aarch64",
            "CMAKE_CXX_COMPILER=aarch64-linux-gnu-g++", f"CMAKE_CXX_FLAGS=-idirafter {include}",
            "PYBIND11_USE_CROSSCOMPILING=ON",
        ]  # fmt: skip
    ninja_build(folder, ("_native", "rk3588_delegate"), *defines, PATH=":".join(here),
                LD_LIBRARY_PATH=libraries)  # fmt: skip
    return folder


def make_share(folder: Path, cases: list[str]) -> None:
    """What the guest finds in /host."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    for model in sorted((SHARED / "models").glob("*.tflite")):
        if model.stat().st_size < 1 << 20:
            shutil.copy(model, folder / "models")
    (folder / "plan.json").write_text(json.dumps(cases))


def judge(folder: Path, cases: list[str]) -> int:
    """Prints the guest's results; the number of failures. ``cases``: those that were asked for."""
    results = folder / "host/results.jsonl"
    if not results.exists():
        print((folder / "console.log").read_text(errors="replace")[-3000:])
        raise SystemExit("the guest reported nothing: see console.log and host/guest.log")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for row in rows:
        verdict = "ok    " if row["passed"] else "FAILED"
        print(
            f"{row['seconds']:7.1f} s  {verdict} {row['case']}: {json.dumps(row['detail'])[:200]}"
        )
        for line in row.get("kernel", ()):
            print(f"           {line}")
    failures = sum(not row["passed"] for row in rows)
    if missing := set(cases) - {row["case"] for row in rows}:
        print(f"not run: {', '.join(sorted(missing))}; see console.log and host/guest.log")
        failures += len(missing)
    asked = next((row["detail"] for row in rows if row["case"] == "answers" and row["passed"]), "")
    for line in differences(parse(asked), folder / "host") if asked else ():
        print(f"           {line}")
        failures += 1
    log = folder / "host/guest.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    if "Traceback" in text:
        print(text[-2000:])
        failures += 1
    print(f"{len(rows)} cases, {failures} failures; logs in {folder}")
    return failures


def main() -> int:
    from tools.board.guest import CASES

    cases = sys.argv[1:] or list(CASES)
    if unknown := sorted(set(cases) - set(CASES)):
        raise SystemExit(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    if not (KERNEL / "Image").exists():
        raise UnavailableError(
            f"no kernel: {KERNEL}/Image does not exist; docs/emulated_board.md says how to build "
            "one, BOARD_KERNEL names its folder"
        )
    tools, packages, site = CACHE / "tools", CACHE / "packages", CACHE / "site"
    here = CACHE / "machine"
    here.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    names = [] if shutil.which("qemu-system-aarch64") and shutil.which("dtc") else [*HOST_TOOLS]
    if platform.machine() != "aarch64" and not shutil.which("aarch64-linux-gnu-g++"):
        names += CROSS_TOOLS
    with step(f"tools: {', '.join(names) or 'installed'}"):
        if names:
            own = run(["dpkg", "--print-architecture"]).strip()
            unpack(tuple(names), tools, CACHE / "apt-tools", own)
            relocate_linker_scripts(tools)
    with step("packages of the guest"):
        unpack(GUEST, packages, CACHE / "apt-guest", "arm64")
    with step("wheels of the guest"):
        fetch_site(site)
    with step("the product for aarch64"):
        libraries = build_product(CACHE / "build-aarch64", tools, packages)
    with step("the NPU's process"):
        ninja_build(CACHE / "build-npu", ("npu_process", "qemu_npu"), "RK3588_BOARD=ON",
                    "RK3588_PYTHON_MODULE=OFF")  # fmt: skip
    with step("the guest's file system"):
        make_root(CACHE / "root", packages, site, libraries, KERNEL)
        write_initrd(CACHE / "root", here / "initrd.gz")
        make_share(here / "host", cases)
        prepare(here / "host")
    machine = Machine(tools, CACHE / "build-npu/native/board", KERNEL / "Image",
                      here / "initrd.gz", here)  # fmt: skip
    with step("the guest, from power on to power off"):
        machine.boot(machine.device_tree(PROJECT / "native/board/npu.dtso"), TIMEOUT_S)
    failures = judge(here, cases)
    print(f"{time.monotonic() - start:7.1f} s in all")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UnavailableError as error:
        print(f"make board: {error}", file=sys.stderr)
        sys.exit(EXIT_UNAVAILABLE)
