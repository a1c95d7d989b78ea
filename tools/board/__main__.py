"""``make board``: the kernel with its own rocket driver in a virtual machine, on emulated NPU
cores, and the product in it (docs/emulated_board.md).

python -m tools.board [CASE ...]

Everything is fetched or built below ``.cache/board`` (``BOARD_CACHE``); each step says how long it
took. ``BOARD_KERNEL``: a folder with Image and the modules (default: ../shared/board/kernel where
that is, else one is built). ``DRIVER``: rocket, or rknpu, the
vendor's. ``BOARD_CHIP``: rk3588, or rk3576 (rknpu). ``BOARD_KASAN=1``: with
KASAN and lockdep. CASE ``shell``: a shell in the guest instead. Exit code 3: something that it
needs is not to be had.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tools.board.answers import differences, parse, prepare
from tools.board.expected import ask_this_machine, make_compiled, unlike
from tools.board.harness import CHIP
from tools.board.image import PROJECT, fetch_site, make_root, write_initrd
from tools.board.kernel import build_kernel, build_module
from tools.board.machine import Machine, has_high_memory
from tools.board.packages import (
    CROSS_TOOLS,
    GUEST,
    GUEST_PYTHON,
    HOST_TOOLS,
    UnavailableError,
    relocate_linker_scripts,
    run,
    unpack,
)
from tools.script import ScriptParser

CACHE = Path(os.environ.get("BOARD_CACHE", PROJECT / ".cache/board"))
SHARED = PROJECT / ".." / "shared"
DRIVER = os.environ.get("DRIVER") or "rocket"
IS_KASAN = os.environ.get("BOARD_KASAN", "") not in ("", "0")
ROCKET_MODULES = ("drm_shmem_helper.ko", "gpu-sched.ko", "rocket.ko")
TREES = {
    ("rocket", "rk3588"): "npu.dtso", ("rknpu", "rk3588"): "npu_rknpu.dtso",
    ("rknpu", "rk3576"): "npu_rknpu_rk3576.dtso",
}  # fmt: skip
"""The device tree by driver and chip; mainline's driver has no RK3576."""
FOR_THE_GUEST = ("BOARD_CYCLES", "BOARD_CONFORMANCE")
NATIVE = Path(__file__).with_name("native")
QEMU_PART = NATIVE / "qemu_npu.c"
PICTURES = ("000000000049",)
_LARGEST = 5 << 20
"""The most bytes of a model for the guest."""
SHELL = "shell"
"""Instead of cases: the guest's shell on this terminal."""
EXIT_UNAVAILABLE = 3
EXIT_TERMINATED = 143
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


def build_product(folder: Path) -> Path:
    """The libraries of the wheel that people install on boards; returns their folder."""
    from tools.wheels.build import build_sdist, build_wheel, find_wheel

    for module in ("ziglang", "build"):
        if importlib.util.find_spec(module) is None:
            raise UnavailableError(f"{module} is not installed: make .venv/wheel-tools")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build_sdist(folder)
    build_wheel("aarch64", GUEST_PYTHON, folder)
    with zipfile.ZipFile(find_wheel(folder, "aarch64", GUEST_PYTHON)) as wheel:
        for entry in wheel.infolist():
            if entry.filename.endswith(".so"):
                library = folder / Path(entry.filename).name
                library.write_bytes(wheel.read(entry))
                library.chmod(entry.external_attr >> 16)  # the keeper executes it
    return folder


def chosen_kernel(cache: Path) -> Path:
    """The folder with Image and modules: the one that is asked for, the ready one, or one built."""
    if tree := os.environ.get("BOARD_KERNEL_TREE"):
        if not (Path(tree) / "drivers/accel/rocket").is_dir():
            raise UnavailableError(f"no rocket driver in {tree} (BOARD_KERNEL_TREE)")
        return build_kernel(cache, kasan=IS_KASAN, tree=Path(tree).resolve())
    if given := os.environ.get("BOARD_KERNEL"):
        if not (Path(given) / "Image").exists():
            raise UnavailableError(f"no kernel: {given}/Image does not exist (BOARD_KERNEL)")
        return Path(given)
    ready = SHARED / "board/kernel"
    return ready if (ready / "Image").exists() else build_kernel(cache, kasan=IS_KASAN)


def image_and_modules(kernel: Path, cache: Path) -> tuple[Path, list[Path]]:
    """Return the kernel's image, and the driver's modules in the order of loading."""
    ready = IS_KASAN and (kernel / "Image-kasan").exists()
    image = kernel / ("Image-kasan" if ready else "Image")
    if DRIVER == "rocket":
        return image, [(kernel / "kasan" if ready else kernel) / name for name in ROCKET_MODULES]
    module = SHARED / "board/rknpu" / ("rknpu_kasan.ko" if ready else "rknpu.ko")
    if source := os.environ.get("BOARD_RKNPU"):
        module = Path(source)
    if module.suffix != ".ko":
        module = build_module(cache, kernel, module)
    if not module.exists():
        raise UnavailableError(
            "no vendor driver: BOARD_RKNPU names its module for this kernel, or its source (a "
            "folder or an archive with a Kbuild) where the kernel was built here"
        )
    return image, [module]


def build_c_host(tools: Path, libraries: Path, folder: Path) -> Path | None:
    """The host in C for the guest, with its libraries; returns that for this machine. None: its
    library is not to be had.
    """
    from tests.hosts.c_library import FOLDERS, build_host, library_folder
    from tests.hosts.c_library import UnavailableError as Missing

    own = folder.parent / "c_host_here"
    try:
        build_host(own)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        compiler = "cc" if platform.machine() == "aarch64" else "aarch64-linux-gnu-gcc"
        environment = {
            **os.environ,
            "PATH": f"{tools}/usr/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": ":".join(str(p) for p in (tools / "usr/lib").glob("*-linux-gnu")),
        }
        # What TensorFlow Lite's library needs of others is there in the guest.
        flags = ("-Wl,--unresolved-symbols=ignore-in-shared-libs",)
        build_host(folder / "c_host", machine="aarch64", compiler=compiler, flags=flags,
                   environment=environment)  # fmt: skip
        hide = ["-O2", "-shared", "-fPIC", str(NATIVE / "hide_npu.c"), "-ldl"]
        run([compiler, *hide, "-o", str(folder / "hide_npu.so")], environment)
        for library in (library_folder() / FOLDERS["aarch64"]).glob("*.so*"):
            shutil.copy(library, folder)
    except Missing as error:
        print(f"           no host in C: {error}")
        return None
    return own


def make_share(folder: Path, cases: list[str], c_host: Path | None) -> None:
    """Make the folder that the guest finds as /host."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    (folder / "images").mkdir()
    for model in sorted((SHARED / "models").glob("*.tflite")):
        if model.stat().st_size < _LARGEST:
            shutil.copy(model, folder / "models")
    for name in PICTURES:
        picture = SHARED / f"images/coco/{name}.jpg"
        if picture.exists():
            shutil.copy(picture, folder / "images")
    (folder / "plan.json").write_text(json.dumps(cases))
    if c_host is not None:
        wanted = int(os.environ.get("BOARD_COMPILED") or 60)
        make_compiled(folder, c_host, wanted if "compiled_conformance" in cases else 0)


def judge(folder: Path, cases: list[str], expected: dict[str, object] | None = None) -> int:
    """Prints the guest's results; the number of failures. ``cases``: those that were asked for.
    ``expected``: what this machine's simulator gives.
    """
    results = folder / "host/results.jsonl"
    if not results.exists():
        print((folder / "console.log").read_text(errors="replace")[-3000:])
        raise SystemExit("the guest reported nothing: see console.log and host/guest.log")
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    for row in rows:
        verdict = "ok    " if row["passed"] else "FAILED"
        print(
            f"{row['seconds']:7.1f} s  {verdict} {row['case']}: {json.dumps(row['detail'])[:400]}"
        )
        if "first" in row:
            print(f"           again: the kernel's own deadline passed: {row['first']}"[:400])
        for line in row.get("kernel", ()):
            print(f"           {line}")
    failures = sum(not row["passed"] for row in rows)
    if missing := set(cases) - {row["case"] for row in rows}:
        print(f"not run: {', '.join(sorted(missing))}; see console.log and host/guest.log")
        failures += len(missing)
    given = {row["case"]: row["detail"] for row in rows if row["passed"]}
    for line in unlike(given, {k: v for k, v in (expected or {}).items() if k in given}):
        print(f"           {line}")
        failures += 1
    asked = next((row["detail"] for row in rows if row["case"] == "answers" and row["passed"]), "")
    for line in differences(parse(asked), folder / "host", DRIVER) if asked else ():
        print(f"           {line}")
        failures += 1
    if has_high_memory() and "pages above 4 GiB" not in (folder / "npu.log").read_text():
        print("           no page of the NPU's was above 4 GiB")
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

    parser = ScriptParser(__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    cases = parser.parse_args().cases or list(CASES)
    is_shell = cases == [SHELL]
    if unknown := sorted(set(cases) - set(CASES) - ({SHELL} if is_shell else set())):
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    if (DRIVER, CHIP) not in TREES:
        pairs = ", ".join(" for ".join(pair) for pair in TREES)
        parser.error(f"no driver {DRIVER} for {CHIP}; there are {pairs}")
    if not QEMU_PART.exists():
        raise UnavailableError(
            f"{QEMU_PART.name}, a part of QEMU's process under QEMU's licence, is not in the "
            "source distribution: take a clone of the project"
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
    with step("the kernel"):
        kernel = chosen_kernel(CACHE)
        image, modules = image_and_modules(kernel, CACHE)
    with step("packages of the guest"):
        unpack(GUEST, packages, CACHE / "apt-guest", "arm64")
    with step("wheels of the guest"):
        fetch_site(site)
    with step("the product for aarch64"):
        libraries = build_product(CACHE / "product")
    with step("the host in C"):
        c_host = build_c_host(tools, libraries, CACHE / "c_host")
    if not QEMU_PART.exists():
        raise UnavailableError(
            f"{QEMU_PART} is not here: source distributions leave it out, a clone has it"
        )
    with step("the NPU's process"):
        ninja_build(CACHE / "build-npu", ("npu_process", "qemu_npu"), "RK3588_BOARD=ON",
                    "RK3588_PYTHON_MODULE=OFF")  # fmt: skip
    with step("the guest's file system"):
        make_root(CACHE / "root", packages, site, libraries, modules, CACHE / "c_host")
        write_initrd(CACHE / "root", here / "initrd.gz")
        shutil.rmtree(CACHE / "root")
        make_share(here / "host", cases, c_host)
        prepare(here / "host", DRIVER)
    with step("what the guest must give"):
        expected = ask_this_machine(here / "host", cases)
    variables = [f"{name}={os.environ[name]}" for name in FOR_THE_GUEST if name in os.environ]
    if is_shell:
        variables.append("BOARD_SHELL=1")
    built = CACHE / "build-npu/tools/board/native"
    variables += [f"BOARD_DRIVER={DRIVER}", f"BOARD_CHIP={CHIP}"]
    machine = Machine(tools, built, image, here / "initrd.gz", here, tuple(variables), CHIP)
    with step("the guest, from power on to power off"):
        tree = machine.device_tree(NATIVE / TREES[DRIVER, CHIP])
        machine.boot(tree, TIMEOUT_S, has_terminal=is_shell)
    if is_shell:
        return 0
    failures = judge(here, cases, expected)
    print(f"{time.monotonic() - start:7.1f} s in all")
    return 1 if failures else 0


if __name__ == "__main__":
    # Ended from outside, it ends the guest and the NPU's process, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(EXIT_TERMINATED))
    try:
        sys.exit(main())
    except UnavailableError as error:
        print(f"make board: {error}", file=sys.stderr)
        sys.exit(EXIT_UNAVAILABLE)
