"""Damaged models and caches, hostile folders, in a Python process under sanitizers.

    cmake -S . -B build/asan -G Ninja -DRK3588_SANITIZE=ON && ninja -C build/asan
    python -m tests.hosts.sanitized_module build/asan --count 300 [--seed 0]

``--count`` compiled models and as many programs for LiteRT's dispatch library, and a quarter as
many calls of its compiler plugin (sanitized_litert.py), changed models, damaged caches, and hostile
folders and variables (hostile_places.py) each. Every one must be refused, left to the CPU, or
give the result of the undamaged one, where damage can be found; a report of a sanitizer ends the
process. The parent prints the case at which that happened, and goes on behind it.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 3600
RAN, WRONG = "ran", "WRONG"

NO_EDITABLE = """import sys
sys.meta_path[:] = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable_")]
"""
"""Runs before a process's own modules: an editable installation is found before PYTHONPATH."""


def environment(build: Path, folder: Path) -> dict[str, str]:
    """Copy the package with the libraries of ``build`` to ``folder``; return the variables."""
    package = folder / "delegate"
    shutil.copytree(
        ROOT / "delegate", package, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    for library in [*build.glob("_native*.so"), *build.glob("librk3588_delegate.so")]:
        shutil.copy(library, package)
    (package / "litert").mkdir()
    for library in build.glob("libLiteRt*_rk3588.so"):
        shutil.copy(library, package / "litert")
    (folder / "sitecustomize.py").write_text(NO_EDITABLE)
    runtime = [
        subprocess.run(
            ["c++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        )
        for name in ("libasan.so", "libstdc++.so")
    ]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)]),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "RK3588_DELEGATE_DENY_OPS": "NONE",  # the CPU would run models as small as these as fast
        # The C++ library has to be there when the sanitizer looks for its functions.
        "LD_PRELOAD": " ".join(done.stdout.strip() for done in runtime),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    }  # fmt: skip


def load_and_run(content: bytes, **options: str) -> tuple[str, list[bytes]]:
    """Return what happened, and the outputs for inputs that are the same every time."""
    import numpy as np

    import delegate
    from delegate.errors import DelegateError
    from delegate.host.runtimes import find_runtime

    rng = np.random.default_rng(1)
    try:
        interpreter = find_runtime().interpreter(
            content, [delegate.load_delegate(device="simulator", **options)]
        )
        for entry in interpreter.get_input_details():
            values = rng.integers(-100, 100, entry["shape"]).astype(entry["dtype"])
            interpreter.set_tensor(entry["index"], values)
        interpreter.invoke()
        details = interpreter.get_output_details()
        return RAN, [interpreter.get_tensor(entry["index"]).tobytes() for entry in details]
    except (DelegateError, RuntimeError, ValueError) as error:
        return f"refused: {str(error)[:60]!r}", []


def judged(expected: list[bytes], found: tuple[str, list[bytes]]) -> str:
    """Return what happened; a result must be the expected one."""
    text, outputs = found
    return WRONG if outputs and outputs != expected else text


def compiled_cases(count: int, seed: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Damaged compiled models: half of them have checksums that fit, and may compute anything."""
    from tests.aot.models import single_operator_model, two_programs_model
    from tests.hosts.conftest import compiled
    from tests.hosts.mutation import DIGITS, mutants, repaired

    originals = [
        compiled(model)
        for model in (single_operator_model(), two_programs_model(), DIGITS.read_bytes())
    ]
    expected = [load_and_run(model)[1] for model in originals]
    for number in range(count):
        which = number // 2 % len(originals)
        if number % 2:
            content = next(repaired(originals[which], seed + number, 1))
            yield "repaired", lambda content=content: load_and_run(content)[0]
        else:
            content = next(mutants(originals[which], seed + number, 1))
            yield (
                "mutant",
                lambda content=content, which=which: judged(expected[which], load_and_run(content)),
            )


def changed_cases(count: int, seed: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Changed models, each in a process of its own: sparse constants and variables among them."""
    import resource

    from rk3588_conformance.generated import mutation_cases
    from rk3588_conformance.generated.campaign import BROKEN, CRASHED, HUNG

    # The sanitizer's own memory is all of the address space.
    mutation_cases.MEMORY_BYTES = resource.RLIM_INFINITY

    def judge(number: int) -> str:
        outcome = mutation_cases.judge(number)
        return WRONG if outcome.kind in (BROKEN, CRASHED, HUNG) else f"{outcome.kind}"

    for number in range(seed, seed + count):
        yield f"changed model {number}", lambda number=number: judge(number)


def damage(folder: Path, rng: random.Random) -> None:
    """Changes bytes or the length of the files of a cache."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.stat().st_size == 0:
            continue
        content = bytearray(path.read_bytes())
        if rng.random() < 0.2:
            content = content[: rng.randrange(len(content))]
        for _ in range(rng.choice((1, 2, 8, 64))):
            if content:
                content[rng.randrange(len(content))] ^= rng.randrange(1, 256)
        path.write_bytes(content)


def cache_cases(count: int, seed: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Damaged entries of the program cache."""
    from tests.hosts.mutation import DIGITS

    model = DIGITS.read_bytes()
    expected = load_and_run(model)[1]

    def run(number: int) -> str:
        with tempfile.TemporaryDirectory() as name:
            load_and_run(model, cache_dir=name)
            damage(Path(name), random.Random(number))
            return judged(expected, load_and_run(model, cache_dir=name))

    for number in range(seed, seed + count):
        yield "cache", lambda number=number: run(number)


def place_cases(count: int, seed: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Folders and variables that somebody chose to do harm."""
    from tests.aot.models import two_programs_model
    from tests.hosts.hostile_places import places

    model = two_programs_model()
    expected = load_and_run(model, cache_dir="off")[1]

    def run(number: int) -> str:
        with tempfile.TemporaryDirectory() as name, places(Path(name), number) as options:
            for _ in range(2):
                found = judged(expected, load_and_run(model, **options))
            return found

    for number in range(seed, seed + count):
        yield f"place {number}", lambda number=number: run(number)


def run_cases(count: int, seed: int, first: int) -> int:
    """Run the cases from ``first`` on; return how many gave a wrong result."""
    from delegate import _native
    from tests.hosts.sanitized_litert import dispatch_cases, plugin_cases

    folder = os.environ["PYTHONPATH"].split(os.pathsep)[0]
    if not Path(_native.__file__).is_relative_to(folder):
        raise SystemExit(f"{_native.__file__} is not the build's")
    some = count // 4
    makers = (
        (compiled_cases, count),
        (dispatch_cases, count),
        (plugin_cases, some),
        (cache_cases, some),
        (place_cases, some),
        (changed_cases, some),
    )
    number = wrong = 0
    for make, total in makers:
        if number + total <= first:
            number += total
            continue
        for kind, run in make(total, seed):
            if number >= first:
                print(f"case {number} {kind}:", end=" ", flush=True)
                text = run()
                wrong += text == WRONG
                print(text, flush=True)
            number += 1
    return wrong


def kind_and_end(case: str) -> str:
    """Return "cache: ran" of a line "case 7 cache: ran", without numbers and messages."""
    kind, _, end = case.partition(": ")
    words = [word for word in kind.split()[2:] if not word.isdigit()]
    return f"{' '.join(words)}: {end.partition(':')[0]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first case that is run")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return 3 if run_cases(arguments.count, arguments.seed, arguments.first) else 0
    first, reports, ends = arguments.first, 0, Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        variables = environment(arguments.build, Path(name))
        while True:
            done = subprocess.run(
                [sys.executable, "-m", "tests.hosts.sanitized_module", str(arguments.build),
                 "--count", str(arguments.count), "--seed", str(arguments.seed),
                 "--first", str(first), "--child"],
                env=variables, capture_output=True, text=True, timeout=SECONDS, check=False,
                cwd=name,  # what lies there is found before PYTHONPATH
            )  # fmt: skip
            cases = [line for line in done.stdout.splitlines() if line.startswith("case ")]
            ends.update(map(kind_and_end, cases))
            print("".join(f"{case}\n" for case in cases if WRONG in case), end="", flush=True)
            if done.returncode in (0, 3):
                break
            if not cases:
                print(done.stdout + done.stderr[-4000:])
                return 1
            reports += 1
            print(f"{cases[-1]}: ended with {done.returncode}\n{done.stderr[-4000:]}", flush=True)
            first = int(cases[-1].split()[1]) + 1
    for text, times in sorted(ends.items()):
        print(f"{times:6} {text}")
    wrong = sum(times for text, times in ends.items() if text.endswith(WRONG))
    print(f"{ends.total()} cases, {reports} reports or crashes, {wrong} wrong results")
    return 1 if reports or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
