"""Breaks the simulator in known ways and shows that its tests notice every one.

    python tools/mutate_simulator.py [--only NAME] [--jobs N]

Works on a copy of the tree in a temporary folder: builds it once, then for each mutation changes
one line, builds again and runs tests/sim until the first failure. Prints the test that failed, or
SURVIVED, and exits with 1 if a mutation survived. Takes some minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SIM = Path("native") / "sim"
COPIED = (
    "CMakeLists.txt",
    "native",
    "delegate",
    "rk3588_conformance",
    "rk3588_vision",
    "models",
    "tests",
    "docs",
    "pyproject.toml",
)
# Compares the mutations with the source, so that it would notice each of them by its text.
NOT_RUN = "tests/sim/test_mutations.py"
# An editable installation would be found before PYTHONPATH: its simulator is whole.
OWN_PYTEST = """
import sys
sys.meta_path = [f for f in sys.meta_path if not type(f).__module__.startswith("_editable")]
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Mutation:
    """``old`` occurs exactly once in the file; ``tests`` may narrow what is run."""

    name: str
    file: str
    old: str
    new: str
    tests: str = "tests/sim"


MUTATIONS = (
    Mutation(
        "rounding mode", "rounding.h",
        "value + half - 1 + (value >> shift & 1)", "value + half",
    ),
    Mutation(
        "negative shift", "dpu_element.cpp",
        "product < 0 ? end.shift_negative : end.shift", "end.shift",
    ),
    Mutation("pad value", "core.cpp", ": cna.pad(i);", ": 0;"),
    Mutation("pad value of the fast path", "fast_float.h",
             "pad(cna.pad_atom())", "pad()"),
    Mutation(
        "halo row", "cna.h",
        "int64_t{y} * stride_h + int64_t{ky} * dilation_h - pad_top",
        "int64_t{y} * stride_h + int64_t{ky} * dilation_h",
    ),
    Mutation(
        "halo row of the fast path", "fast_float.h",
        "row - cna.pad_top < f.height", "row < f.height",
    ),
    Mutation(
        "channel order", "cna.cpp",
        "before + uint64_t{o - o_first} * i_in_group + (i - i_first)",
        "before + uint64_t{i - i_first} * o_in_group + (o - o_first)",
    ),
    Mutation("COMB_USE addressing", "rdma.h", "s % 2 != 0 ? odd : even", "s % 2 != 0 ? even : odd"),
    Mutation(
        "group persistence", "register_file.h",
        "pointer_[static_cast<int>(block)] ^= 1;", "pointer_[static_cast<int>(block)] ^= 0;",
    ),
    Mutation("table interpolation", "lut.cpp", "(to - from) * fraction", "(to - from) * 0"),
    Mutation("table priority", "lut.cpp", "in_lo && c.hybrid_lo", "in_lo && !c.hybrid_lo"),
    Mutation("pixels of packed input", "cna_input.cpp", "i < c->packed.channels * element",
             "i < (c->packed.channels - 1) * element"),
    Mutation("pixels between in a transposed convolution", "cna_input.cpp",
             "pad = c->pad_atom();", "pad = {};"),
    Mutation("padding of averages", "ppu.cpp", "found.sum += pad;", "found.sum += 0;"),
    Mutation("padding of maxima", "ppu.cpp", "found.best.value_or(value)",
             "found.best.value_or(0)"),
    Mutation("order of BN", "dpu_decode_stages.cpp", "x.multiplies_first = true;", ""),
    Mutation("order of BN in the fast path", "kernels_stages.inc",
             "if (t.has_bn_mul) v *= load(s.bn_ge + i * kWidth);\n"
             "    v += load(s.bn_alu + i * kWidth);",
             "v += load(s.bn_alu + i * kWidth);\n"
             "    if (t.has_bn_mul) v *= load(s.bn_ge + i * kWidth);"),
    Mutation("order of table and EW", "dpu_element.cpp",
             "if (dpu.lut.is_on) note(steps, \"EW.LUT\", x = look_up(dpu.lut, x));\n"
             "  return run_ew_stage(dpu.ew, x, ew_operand, steps);",
             "x = run_ew_stage(dpu.ew, x, ew_operand, steps);\n"
             "  if (dpu.lut.is_on) x = look_up(dpu.lut, x);\n"
             "  return x;"),
    Mutation("where notches begin", "rdma_gather.cpp",
             "(height - 1) * s.line_pitch + width * kAtomBytes", "height * s.line_pitch"),
    Mutation("units of windows", "cna.cpp", "uint64_t{(width + surface) & kStrideMask}",
             "uint64_t{(line + surface) & kStrideMask}"),
    Mutation("rows of packed pixels", "cna_input.cpp",
             "(stride + f->lanes - 1) / f->lanes * f->lanes", "stride"),
    Mutation("lanes of rests", "cna.h", "stored *= 2", "stored += surface_lanes"),
    Mutation("the writer's stream", "dpu.h", "pixel += (group * height + y) * width;",
             "pixel += y * width;"),
    Mutation("columns of pooling", "ppu.cpp", "shares * c->stride_h < c->kernel_h",
             "shares * c->stride_h + 1 < c->kernel_h"),
    Mutation("groups of sums", "cna.h", "std::min(end, i + chip->input_lanes)",
             "std::min(end, i + chip->input_lanes / 2)"),
    Mutation("doubt about fp16 sums", "fast_float_dense.cpp",
             "std::sqrt(double{a.squares} * b.squares)", "0.0"),
    Mutation("where fp16 sums are exact", "fast_float_dense.cpp", "0x1.ffp105f", "0x1.ffp125f"),
    Mutation("places of fp16 numbers", "half_load.inc", "(smallest(small) + 1) >> 10", "top >> 10"),
    Mutation("kept results of fp16", "fast_results.cpp",
             "a.bn_mul == b.bn_mul &&", "a.bs_mul == b.bs_mul &&"),
)  # fmt: skip


def source(mutation: Mutation, root: Path = ROOT) -> str:
    """Return the file's text. Raises ValueError if the mutation does not fit it any more."""
    text = (root / SIM / mutation.file).read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise ValueError(
            f"mutation '{mutation.name}': {mutation.file} has its text {text.count(mutation.old)} "
            "times, not once; adapt the mutation to the new source"
        )
    return text


def build(tree: Path, jobs: int) -> None:
    if not (tree / "build").exists():
        pybind = subprocess.run(
            [sys.executable, "-m", "pybind11", "--cmakedir"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        subprocess.run(
            ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DRK3588_IN_SOURCE=ON",
             "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1",
             f"-Dpybind11_DIR={pybind}", f"-DPython_EXECUTABLE={sys.executable}"],
            cwd=tree, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    subprocess.run(
        ["ninja", "-C", "build", f"-j{jobs}", "_native"],
        cwd=tree, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def first_failure(tree: Path, mutation: Mutation) -> str:
    """Return the first test that fails, or ""."""
    run = subprocess.run(  # a failing run is what is wanted
        [sys.executable, "-c", OWN_PYTEST, "-x", "-q", "-p", "no:cacheprovider",
         f"--ignore={NOT_RUN}", mutation.tests],
        cwd=tree, check=False, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tree)},
    )  # fmt: skip
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if run.returncode != 0 and not failed:
        return "the test run ended early"
    return failed[0].split(" ")[1] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="the mutation of this name")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at once (default 2)")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if arguments.only in (None, m.name)]
    if not chosen:
        parser.error(
            f"no mutation {arguments.only!r}; there are {', '.join(m.name for m in MUTATIONS)}"
        )
    for mutation in chosen:
        source(mutation)
    survived = 0
    with tempfile.TemporaryDirectory(prefix="mutated-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        skip = shutil.ignore_patterns("*.so", "__pycache__")
        for name in COPIED:
            path = ROOT / name
            if path.is_dir():
                shutil.copytree(path, tree / name, ignore=skip)
            else:
                shutil.copy2(path, tree / name)
        build(tree, arguments.jobs)
        for mutation in chosen:
            text = source(mutation, tree)
            path = tree / SIM / mutation.file
            path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
            build(tree, arguments.jobs)
            failure = first_failure(tree, mutation)
            survived += not failure
            print(f"{mutation.name}: {failure or 'SURVIVED'}", flush=True)
            path.write_text(text, encoding="utf-8")
    print(f"{len(chosen) - survived} of {len(chosen)} mutations noticed")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
