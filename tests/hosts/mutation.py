"""Mutated compiled models: each must be rejected or give the right answer.

``mutants(seed, count)`` gives files that are well-formed flatbuffers (a runtime checks nothing of
those and would crash by itself) whose compiled operators are damaged: bytes of the program, its
length, its place, its tensors. ``repaired(seed, count)`` gives damaged programs with a valid
checksum: somebody may write those on purpose, and then only crashes, hangs and reads or writes out
of bounds are forbidden.

    python -m tests.hosts.mutation --count 10000 [--repaired 3000] [--seed 0] [--host HOST]
        [--library LIBRARY]

runs them in the C host; HOST and LIBRARY may be builds with sanitizers (docs/ahead_of_time.md).
"""

import argparse
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from delegate.model.flatbuffer_tables import Items, TableValue, write_file
from delegate.model.tflite_schema import ModelSlot, OperatorSlot, SubGraphSlot, TensorSlot
from rk3588_conformance.cut_model import parse
from tests.aot.models import single_operator_model, two_programs_model
from tests.hosts.conftest import clean_environment, compiled
from tests.npu.sample_programs import resealed

DIGITS = Path(__file__).resolve().parents[2] / "models" / "digits" / "digits_int8.tflite"

BATCH = 500
SECONDS_PER_BATCH = 300

EXTREMES = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def operators(root: TableValue) -> list[TableValue]:
    found = root.children(ModelSlot.SUBGRAPHS)[0].children(SubGraphSlot.OPERATORS)
    return [item for item in found if OperatorSlot.CUSTOM_OPTIONS in item.fields]


def program_of(operator: TableValue) -> bytearray:
    options = operator.fields[OperatorSlot.CUSTOM_OPTIONS]
    assert isinstance(options, Items)
    return bytearray(options.content)


def set_program(operator: TableValue, program: bytes) -> None:
    operator.fields[OperatorSlot.CUSTOM_OPTIONS] = Items(bytes(program), 1, 16)


def form(tensor: TableValue) -> tuple[object, list[int]]:
    """Element type and shape."""
    return tensor.fields.get(TensorSlot.TYPE), tensor.integers(TensorSlot.SHAPE)


Mutation = Callable[[random.Random, TableValue], None]


def flip_bytes(rng: random.Random, root: TableValue) -> None:
    operator = rng.choice(operators(root))
    program = program_of(operator)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        program[rng.randrange(len(program))] ^= rng.randrange(1, 256)
    set_program(operator, program)


def put_extremes(rng: random.Random, root: TableValue) -> None:
    operator = rng.choice(operators(root))
    program = program_of(operator)
    position = rng.randrange(0, len(program) - 4, 4)
    old = program[position : position + 4]
    struct.pack_into("<I", program, position, rng.choice(EXTREMES))
    if old == program[position : position + 4]:
        program[position] ^= 0x55
    set_program(operator, program)


def change_length(rng: random.Random, root: TableValue) -> None:
    operator = rng.choice(operators(root))
    program = program_of(operator)
    if rng.random() < 0.7:
        program = program[: rng.choice((0, 1, 4, 8, 12, rng.randrange(len(program))))]
    else:
        program += rng.randbytes(rng.randrange(1, 64))
    set_program(operator, program)


def move_block(rng: random.Random, root: TableValue) -> None:
    operator = rng.choice(operators(root))
    program = program_of(operator)
    size = rng.randrange(1, 64)
    source, target = (rng.randrange(len(program) - size) for _ in range(2))
    program[target : target + size] = program[source : source + size]
    set_program(operator, program)


def exchange_programs(rng: random.Random, root: TableValue) -> None:
    found = operators(root)
    other = rng.choice(found[1:]) if len(found) > 1 else None
    if other is None:
        set_program(found[0], program_of(found[0])[::-1])
        return
    first, second = program_of(found[0]), program_of(other)
    set_program(found[0], second)
    set_program(other, first)


def change_tensors(rng: random.Random, root: TableValue) -> None:
    operator = rng.choice(operators(root))
    slot = rng.choice((OperatorSlot.INPUTS, OperatorSlot.OUTPUTS))
    tensors = operator.integers(slot)
    forms = [form(t) for t in root.children(ModelSlot.SUBGRAPHS)[0].children(SubGraphSlot.TENSORS)]
    count = len(forms)
    choice = rng.randrange(4)
    if choice == 0:
        # A tensor of the same form would make another model, not a damaged one.
        place = rng.randrange(len(tensors))
        others = [t for t in range(count) if forms[t] != forms[tensors[place]]]
        tensors[place] = rng.choice(others or [-1])
    elif choice == 1:
        tensors.append(rng.randrange(count))
    elif choice == 2:
        tensors.pop()
    else:
        tensors[rng.randrange(len(tensors))] = rng.choice((-1, count, 1 << 30))
    operator.set_integers(slot, tensors)


def change_a_tensor(rng: random.Random, root: TableValue) -> None:
    """One that a program reads or writes; the others are the runtime's own."""
    operator = rng.choice(operators(root))
    numbers = operator.integers(OperatorSlot.INPUTS) + operator.integers(OperatorSlot.OUTPUTS)
    tensors = root.children(ModelSlot.SUBGRAPHS)[0].children(SubGraphSlot.TENSORS)
    tensor = tensors[rng.choice(numbers)]
    if rng.random() < 0.5:
        tensor.set_number(TensorSlot.TYPE, rng.choice((0, 2, 3, 7, 9)), 1)
        return
    shape = tensor.integers(TensorSlot.SHAPE)
    if not shape or rng.random() < 0.3:
        shape.append(rng.choice((1, 2)))
    else:
        shape[rng.randrange(len(shape))] = rng.choice((1, 2, 3, 7, 64))
    tensor.set_integers(TensorSlot.SHAPE, shape)


MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    (8, flip_bytes), (4, put_extremes), (2, change_length), (2, move_block),
    (1, exchange_programs), (2, change_tensors), (1, change_a_tensor),
)  # fmt: skip


def mutants(model: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Damaged copies of a compiled ``model``. Deterministic."""
    rng = random.Random(seed)
    weights = [weight for weight, _ in MUTATIONS]
    for _ in range(count):
        root = parse(model)
        ((_, mutation),) = rng.choices(MUTATIONS, weights)
        mutation(rng, root)
        yield write_file(root, b"TFL3")


def damage_and_repair(rng: random.Random, program: bytearray) -> None:
    """Change a program that stays well-formed in its checksum."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        position = rng.randrange(0, len(program) - 4, rng.choice((1, 4)))
        if rng.random() < 0.5:
            program[position] ^= 1 << rng.randrange(8)
        else:
            struct.pack_into("<I", program, position, rng.choice(EXTREMES))
    program[:] = resealed(program)


def repaired(model: bytes, seed: int, count: int) -> Iterator[bytes]:
    """Copies whose programs are damaged and have a checksum that fits. Deterministic."""
    rng = random.Random(seed)
    for _ in range(count):
        root = parse(model)
        operator = rng.choice(operators(root))
        program = program_of(operator)
        damage_and_repair(rng, program)
        set_program(operator, program)
        yield write_file(root, b"TFL3")


@dataclass(frozen=True, slots=True)
class Verdict:
    rejected: int
    right: int
    wrong: tuple[bytes, ...]


def judge(host: Path, library: str, original: bytes, files: list[bytes], folder: Path) -> Verdict:
    """Runs ``files`` in one process. Raises RuntimeError if it does not live to the end."""
    paths = []
    for number, content in enumerate([original, *files]):
        path = folder / f"{number}.tflite"
        path.write_bytes(content)
        paths.append(path)
    listing = folder / "list"
    listing.write_text("".join(f"{path}\n" for path in paths))
    done = subprocess.run(
        [str(host), "--batch", library, str(listing), "-", "device=simulator"],
        env=clean_environment(ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="halt_on_error=1"),
        capture_output=True, text=True, timeout=SECONDS_PER_BATCH, check=False,
    )  # fmt: skip
    results = [line.split()[1] for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(results) != len(paths):
        last = paths[min(len(results), len(paths) - 1)]
        raise RuntimeError(
            f"the host ended with {done.returncode} at {last}: {done.stderr[-3000:]}"
        )
    expected, *found = results
    wrong = tuple(
        content
        for content, result in zip(files, found, strict=True)
        if result not in ("rejected", expected)
    )
    return Verdict(found.count("rejected"), found.count(expected), wrong)


def main() -> int:
    import delegate
    from tests.hosts.c_library import build_host

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--repaired", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", type=Path)
    parser.add_argument("--library", default="")
    arguments = parser.parse_args()
    models = (single_operator_model(), two_programs_model(), DIGITS.read_bytes())
    originals = [compiled(model) for model in models]
    rejected = right = survived = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        host = arguments.host or build_host(folder / "c_host")
        library = arguments.library or delegate.library_path()
        for make, total in ((mutants, arguments.count), (repaired, arguments.repaired)):
            for start in range(0, total, BATCH):
                original = originals[start // BATCH % len(originals)]
                count = min(BATCH, total - start)
                files = list(make(original, arguments.seed + start, count))
                verdict = judge(host, library, original, files, folder)
                if make is mutants and verdict.wrong:
                    kept = Path("mutant.tflite")
                    kept.write_bytes(verdict.wrong[0])
                    print(f"{len(verdict.wrong)} mutants give a wrong answer; first: {kept}")
                    return 1
                survived += count
                rejected += verdict.rejected
                right += verdict.right
                print(
                    f"\r{survived} mutants, {rejected} rejected, {right} right", end="", flush=True
                )
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
