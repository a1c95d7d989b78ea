"""``compare``: keys, verdicts, and what it says where fp16 or the runtime is why results differ."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import rk3588_conformance.comparison as comparison
from delegate.cli import main
from delegate.host.delegated import DelegatedModel, ReferenceModel
from delegate.host.samples import random_sample
from delegate.model.graph import DType, Quantization
from delegate.model.tflite_reader import read_graph
from delegate.ops.shared.functions import table_rows
from delegate.options import Options
from rk3588_conformance.builder import Net, layers
from rk3588_conformance.comparison import Comparer
from tests.cli.conftest import DIGITS, MODEL, Run
from tests.cli.odd_models import sum_and_float_layer
from tests.cli.test_commands import DELEGATED
from tests.ops.half_models import conv_model
from tests.shared_folder import SHARED


def in_half() -> bytes:
    weights = np.random.default_rng(2).normal(size=(24, 1, 1, 8)).astype(np.float16)
    return conv_model(weights, shape=(1, 5, 6, 8))


def one_layer() -> bytes:
    builder = Net("layer")
    x = builder.input("x", (1, 5, 6, 8), DType.INT8, Quantization((0.5,), (3,)))
    return builder.build(builder.conv(x, 16, layers.Window(3, 3)))


@pytest.fixture
def path(tmp_path) -> Path:
    """A model of one layer."""
    path = tmp_path / "layer.tflite"
    path.write_bytes(one_layer())
    return path


def test_compare_json_has_the_keys_of_the_design(run: Run) -> None:
    outcome = run("compare", MODEL, "--per-op", "--images", DIGITS / "images", "--json")
    assert outcome.code == 0, outcome
    document = outcome.json
    assert set(document) == {
        "outputs", "ops", "top1_agreement", "images", "verdict", "violations", "runtime_wrong",
        "fp16",
    }  # fmt: skip
    assert (document["verdict"], document["violations"]) == ("equal", [])
    assert document["images"] == 10
    assert document["top1_agreement"] == 1.0
    assert set(document["outputs"][0]) == {"name", "max_abs_diff", "equal", "elements"}
    assert document["outputs"][0]["elements"] == 100
    assert len(document["ops"]) == DELEGATED
    assert all(
        set(op) == {"node", "op", "max_abs_diff", "equal", "elements"} for op in document["ops"]
    )
    assert max(op["max_abs_diff"] for op in document["ops"]) == 0


def test_compare_does_not_depend_on_the_number_of_processes(run: Run) -> None:
    arguments = ("compare", MODEL, "--per-op", "--random", 3, "--json")
    alone, shared = run(*arguments, "--jobs", 1), run(*arguments, "--jobs", 2)
    assert alone.json == shared.json
    assert alone.json["images"] == 3


def test_compare_accepts_npy_and_npz(run: Run, tmp_path: Path) -> None:
    array = np.arange(-128, -128 + 32 * 32, dtype=np.int16).astype(np.int8).reshape(1, 32, 32, 1)
    np.save(tmp_path / "x.npy", array)
    np.savez(tmp_path / "x.npz", digit=array)
    one = run("compare", MODEL, "--input", tmp_path / "x.npy", "--json")
    two = run("compare", MODEL, "--input", tmp_path / "x.npz", "--json")
    assert one.json == two.json
    assert one.json["ops"] == []


def test_compare_fails_where_the_contract_is_broken(run: Run) -> None:
    """The null device computes nothing, so every operator differs."""
    for arguments in ((), ("--per-op",)):
        outcome = run("compare", MODEL, *arguments, "--device", "null")
        assert outcome.code == 1
        assert "BROKEN: node 0 (CONV_2D)" in outcome.out
        assert outcome.out.endswith("verdict  beyond the contract\n")
        outcome = run("compare", MODEL, *arguments, "--device", "null", "--json")
        assert outcome.code == 1
        assert outcome.json["verdict"] == "beyond the contract"
        assert any("node 0 (CONV_2D)" in text for text in outcome.json["violations"])
        assert bool(outcome.json["ops"]) == bool(arguments)


def test_compare_sees_a_program_that_is_wrong_as_a_whole(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every operator alone is right; what the whole model gives is off by one step."""
    whole = DelegatedModel.run

    def off(self: DelegatedModel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [np.bitwise_xor(output, 1) for output in whole(self, inputs)]

    monkeypatch.setattr(DelegatedModel, "run", off)
    for arguments in ((), ("--per-op",)):
        outcome = run("compare", MODEL, *arguments, "--random", 2, "--jobs", 1)
        assert outcome.code == 1
        assert "BROKEN: outputs differ for 2 of 2 inputs" in outcome.out


def test_compare_blames_no_difference_between_kernels_on_the_delegate(
    run: Run, tmp_path: Path
) -> None:
    """Sums of floats, which stay on the CPU, depend on the order in which a kernel makes them."""
    model = tmp_path / "model.tflite"
    model.write_bytes(sum_and_float_layer())
    reference = ReferenceModel.load(model, reference_kernels=True)
    sample = random_sample(reference.inputs, 0)
    fast = DelegatedModel.load(model, Options.from_mapping({"numerics": "exact"}, {})).run(sample)
    assert (fast[0] != reference.run(sample)[0]).any(), "this runtime's kernels do not differ"
    for arguments in ((), ("--reference", "builtin")):
        outcome = run("compare", model, "--json", *arguments)
        assert outcome.json["verdict"] == "equal"
        assert outcome.json["outputs"][0]["equal"] == outcome.json["outputs"][0]["elements"]
        assert outcome.code == 0


def test_compare_with_the_default_kernels(run: Run) -> None:
    outcome = run(
        "compare", MODEL, "--images", DIGITS / "images", "--limit", 3, "--reference", "builtin"
    )
    assert outcome.code == 0
    assert "best class agrees  3 of 3" in outcome.out


def test_reference_tensors_are_not_overwritten_by_operators_in_place() -> None:
    """ADD works in place on an input: read afterwards, that input would be the sum."""
    comparer = Comparer(MODEL, Options.from_mapping({"numerics": "exact"}, {}), per_op=True)
    result = comparer.compare_one(random_sample(comparer.inputs, 5))
    assert [op.max_abs_diff for op in result.ops if op.op == "ADD"] == [0]


def test_fp16_is_said_to_round_and_not_to_be_broken(tmp_path, capsys) -> None:
    path = tmp_path / "half.tflite"
    path.write_bytes(in_half())
    assert main(["compare", str(path)]) == 0
    out = capsys.readouterr().out
    assert "BROKEN" not in out
    assert "in fp16, which rounds" in out


def test_a_wrong_kernel_of_the_runtime_is_named_as_such(path, capsys, monkeypatch) -> None:
    (output,) = read_graph(path).outputs
    right = ReferenceModel.tensor

    def wrong(self: ReferenceModel, index: int) -> np.ndarray:
        array = right(self, index)
        return array ^ 16 if index == output else array

    monkeypatch.setattr(ReferenceModel, "tensor", wrong)
    assert main(["compare", str(path), "--per-op"]) == 0
    out = capsys.readouterr().out
    assert "RUNTIME: node 0 (CONV_2D): the runtime's reference kernel is off by 16" in out
    assert "BROKEN" not in out
    # A program that is wrong itself is no fault of the runtime.
    assert main(["compare", str(path), "--per-op", "--device", "null"]) == 1
    assert "BROKEN: node 0 (CONV_2D)" in capsys.readouterr().out


def test_a_wrong_kernel_before_a_function_in_its_task_is_named_too(
    tmp_path, capsys, monkeypatch
) -> None:
    builder = Net("layer")
    x = builder.input("x", (1, 5, 6, 8), DType.INT8, Quantization((0.5,), (3,)))
    y = builder.conv(x, 16, layers.Window(3, 3))
    builder.output(builder.function("LOGISTIC", (y,), Quantization((1 / 256,), (-128,))))
    path = tmp_path / "joined.tflite"
    path.write_bytes(builder.build())
    (output,) = read_graph(path).outputs
    right = ReferenceModel.tensor

    def wrong(self: ReferenceModel, index: int) -> np.ndarray:
        array = right(self, index)
        return ~array if index == output else array

    monkeypatch.setattr(ReferenceModel, "tensor", wrong)
    given = ["compare", str(path), "--per-op", "-O", "numerics=auto"]
    assert main(given) == 0
    out = capsys.readouterr().out
    assert "RUNTIME: node 0 (CONV_2D + LOGISTIC): the runtime's reference kernel is off by" in out
    assert main([*given, "--device", "null"]) == 1
    assert "BROKEN: node 0 (CONV_2D + LOGISTIC)" in capsys.readouterr().out


@pytest.mark.parametrize(("numerics", "share"), [("auto", "75 %"), ("exact", "99.5 %")])
def test_the_bound_is_that_of_the_mode(numerics: str, share: str, path, capsys) -> None:
    assert main(["compare", str(path), "--per-op", "-O", f"numerics={numerics}"]) == 0
    assert f"contract of numerics={numerics}: max diff 1, at least {share}" in (
        capsys.readouterr().out
    )


def test_operators_are_compiled_for_the_runtimes_rounding(path, monkeypatch) -> None:
    seen = []

    def for_runtime(graph, runtime):
        seen.append(runtime)
        return graph

    monkeypatch.setattr(comparison, "for_runtime", for_runtime)
    assert main(["compare", str(path), "--per-op", "--jobs", "1"]) == 0
    assert seen == [comparison.find_runtime()]


def test_ids_are_drawn_within_the_smallest_table() -> None:
    builder = Net("words")
    x = builder.input("ids", (1, 500), DType.INT32)
    other = builder.input("number", (1,), DType.INT32)
    cast = builder.tensor("cast", (1, 500), DType.INT32)
    builder.operator("CAST", (x,), (cast,))
    for rows in (40, 7, 90):
        table = builder.constant(f"table {rows}", np.zeros((rows, 4), np.float32))
        words = builder.tensor(f"words {rows}", (1, 500, 4), DType.FLOAT32)
        builder.operator("GATHER", (table, cast), (words,))
        builder.output(words)
    graph = read_graph(builder.build())
    assert table_rows(graph) == {x: 7}
    inputs = [{"index": i, "name": "", "shape": s, "dtype": np.int32}
              for i, s in ((x, (1, 500)), (other, (1,)))]  # fmt: skip
    ids, number = random_sample(inputs, 0, table_rows(graph))
    assert set(ids.flat) == set(range(7))
    assert number.dtype == ids.dtype == np.int32


@pytest.mark.parametrize("more", [(), ("--per-op",)])
def test_a_runtime_that_dies_of_a_model_is_named(tmp_path, capsys, more) -> None:
    """ADD asserts that its result's scale is not far below its operands'."""
    builder = Net("dies")
    quantization = Quantization((0.5,), (0,))
    a, b = (builder.input(name, (1, 4, 4, 8), DType.INT8, quantization) for name in "ab")
    path = tmp_path / "dies.tflite"
    path.write_bytes(builder.build(builder.add(a, b, output_scale=2.0**-30)))
    assert main(["compare", str(path), "-O", "deny_ops=NONE", *more]) == 1
    said = capsys.readouterr().err
    assert "the reference kernels of " in said
    assert "(SIGABRT) with this model, without this delegate" in said


INPUTS = {"coarse": "coarse.npy", "add_const_batch2": "add.npy"}
"""The inputs that showed a defect; other models showed theirs with any values."""

VERDICTS = {
    "coarse": "equal",
    "add_const_batch2": "equal",
    "dilated_neighbour": "equal",
    # Its nodes read what nobody has written.
    "cycle": "nothing was delegated: the runtime's own results differ from run to run",
}


LEFT_TO_THE_CPU = {"cycle", "rsqrt_large_multiplier", "hard_swish_coarse_output"}
"""Nodes whose results TensorFlow Lite's kernels leave undefined, but for the first."""


@pytest.mark.skipif(not (SHARED / "regressions").is_dir(), reason=f"{SHARED} has no regressions")
def test_no_old_defect_is_back(run: Run) -> None:
    files = sorted((SHARED / "regressions").glob("*.tflite"))
    assert {file.stem for file in files} >= VERDICTS.keys()
    for file in files:
        inputs = INPUTS.get(file.stem)
        values = ("--input", file.with_name(inputs)) if inputs else ("--random", 1)
        outcome = run("compare", file, "--per-op", *values, "--json")
        assert outcome.code == 0, file
        assert outcome.json["verdict"] in (VERDICTS.get(file.stem, "equal"), "equal"), file
        delegated = {op["op"] for op in outcome.json["ops"]}
        assert bool(delegated) == (file.stem not in LEFT_TO_THE_CPU), file
