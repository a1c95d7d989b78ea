"""Default programs have forms that others have run; the shared tool that compares forms agrees.

The judge is ../shared/forms, not the compiler's table of known forms.
"""

import runpy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from delegate.chip.chip import ZEROS, Form, Standing
from delegate.chip.chips import DEFAULT
from delegate.chip.known_forms import KnownForms, known_forms, known_forms_of, rows_of
from delegate.chip.rk3588 import RK3588
from delegate.compile.compiler import CompileResult, compile_model
from delegate.insight.capture import save_capture
from delegate.insight.program_capture import capture_of_program
from delegate.model.graph import DType
from delegate.npu.evidence import FormEvidence, program_forms
from delegate.npu.program_reader import parse
from delegate.ops.add import AddOptions
from delegate.ops.sub import SubOptions
from delegate.options import Options
from rk3588_conformance.builder import Net
from rk3588_conformance.execution import prepare
from rk3588_conformance.families import case_names, is_half
from tests.shared_folder import LARGE_BYTES, MODELS, SHARED, model_files, needs_models
from tools.form_page import PAGE, page, used_forms
from tools.used_forms import document, models_in

KNOWN = known_forms_of(DEFAULT.target)
"""The table of RK3588."""

ROOT = Path(__file__).resolve().parents[2]

FORMS = SHARED / "forms" / "forms.py"
needs_forms = pytest.mark.skipif(
    not (FORMS.is_file() and MODELS.is_dir()), reason=f"no recorded forms or models: {FORMS}"
)
COUNTED = ("mobilenet_v1_0.25_128_quant", "resnet8_cifar10_int8", "yolov8_tiny_silu_160_random")
UINT8 = ("mobilenet_v1_1.0_224_quant", "mobilenet_v2_1.0_224_quant")
NUMBER = "BS_MUL.shift"
"""A setting there: whether BS shifts at all."""
WHOLE, PARTS = 0.9, 0.9
"""The shares of tasks that the contract asks for."""

Judged = tuple[Mapping[str, Mapping[str, set[str]]], Mapping[str, Mapping[Any, set[str]]]]


def shared_tool() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(FORMS)))


@pytest.fixture(scope="module")
def recorded() -> Judged:
    """Values of settings, and whole forms without what is 0, with who ran them, by kind."""
    values, whole = shared_tool().recorded()
    found: dict[str, dict[Any, set[str]]] = {}
    for kind, forms in whole.items():
        for items, sources in forms.items():
            key = frozenset(item for item in items if item[1] not in ZEROS and item[0] != NUMBER)
            found.setdefault(kind, {}).setdefault(key, set()).update(sources)
    return values, found


def compiled(name: str, known: KnownForms | None = None, **options: str) -> CompileResult:
    chip = RK3588
    if known is not None:
        chip = replace(RK3588, evidence=FormEvidence(RK3588, known))
    (path,) = (p for p in model_files(".", "float") if p.stem == name)
    return compile_model(path, Options.from_mapping({"device": "null", **options}, {}), chip=chip)


def forms_of(result: CompileResult) -> Iterator[Form]:
    for one in result.partitions:
        yield from (task.form for task in program_forms(parse(one.program)))


def operators_on_npu(result: CompileResult) -> set[int]:
    return {node for one in result.partitions for node in one.partition.delegated}


def sources_of(form: Form, recorded: Judged) -> set[str]:
    return recorded[1].get(form.kind, {}).get(frozenset(form.settings.items()), set())


def is_recorded_in_parts(form: Form, recorded: Judged) -> bool:
    values = recorded[0][form.kind]
    return all(value in values[name] for name, value in form.settings.items())


@needs_forms
@pytest.mark.parametrize("name", COUNTED)
def test_the_shared_tool_counts_the_same(name: str, tmp_path: Path) -> None:
    result = compiled(name)
    paths = []
    for number, one in enumerate(result.partitions):
        program = parse(one.program)
        given, zeros = (
            [np.zeros(b.shape, b.element.dtype) for b in edge]
            for edge in (program.inputs, program.outputs)
        )
        paths.append(tmp_path / f"partition_{number}.npz")
        save_capture(capture_of_program(program, given, zeros, name), paths[-1])
    found = shared_tool().check(paths)
    known, forms = KNOWN, list(forms_of(result))
    sources = [{source.name for source in known.sources(form)} for form in forms]
    assert len(forms) == found["tasks"] > 0
    assert sum(not known.unknown(form) for form in forms) == found["settings"]
    assert sum(known.standing(form) is Standing.WHOLE for form in forms) == found["form"]
    assert sum("mesa" in names for names in sources) == found["form of mesa"]
    # Measured entries that leave out what is 0 are whole here, and in parts there.
    measured = sum(bool(names - {"mesa", "vendor"}) for names in sources)
    assert measured >= found["form measured"]


@needs_forms
@pytest.mark.slow
@pytest.mark.parametrize(
    "most_bytes", [LARGE_BYTES, pytest.param(1 << 30, marks=pytest.mark.exhaustive)]
)
def test_every_setting_of_default_programs_is_recorded_or_measured(
    recorded: Judged, most_bytes: int
) -> None:
    """Whole forms are counted without SOFTMAX, which by default the CPU keeps in all of these."""
    whole = tasks = 0
    for path in (path for path in model_files(".") if path.stat().st_size <= most_bytes):
        result = compiled(path.stem)
        forms = list(forms_of(result))
        assert forms, path.stem
        unknown = {f.name for f in forms if not is_recorded_in_parts(f, recorded)}
        assert unknown == set(), path.stem
        if any(layer.op == "SOFTMAX" for one in result.partitions for layer in one.layers):
            forms = list(forms_of(compiled(path.stem, deny_ops="SOFTMAX")))
        whole += sum(bool(sources_of(form, recorded)) for form in forms)
        tasks += len(forms)
    assert whole >= WHOLE * tasks, f"{whole} of {tasks}"


@needs_models
def test_every_setting_of_float_programs_is_recorded_or_confirmed() -> None:
    """Some are confirmed in words, which only the compiler's table has."""
    for path in model_files("float"):
        forms = list(forms_of(compiled(path.stem, float="fp16")))
        assert forms
        assert {form.name: KNOWN.unknown(form) for form in forms if KNOWN.unknown(form)} == {}


HALF_KINDS = sorted({name.split("/")[0] for name in case_names(None) if is_half(name)})


@pytest.mark.parametrize("kind", HALF_KINDS)
def test_kinds_of_fp16_nodes_run_by_default_in_known_forms_alone(kind: str) -> None:
    names = [name for name in case_names(None, kind + "/") if is_half(name)]
    found = []
    for name in names[:: max(1, len(names) // 12) | 1]:
        model = prepare(name, None).model
        chosen = Options.from_mapping({"float": "fp16", "deny_ops": "NONE"}, {})
        result = compile_model(model, chosen, chip=RK3588)
        assert all(KNOWN.unknown(form) == () for form in forms_of(result)), name
        found += [name] if result.partitions else []
    assert found


@needs_forms
def test_the_convolutions_of_a_uint8_model_are_those_of_mesas_driver(recorded: Judged) -> None:
    """Dense, depthwise and fully connected ones."""
    result = compiled(UINT8[0])
    others = set()
    for one in result.partitions:
        program = parse(one.program)
        for task, item in zip(program.tasks, program_forms(program), strict=True):
            sources = sources_of(item.form, recorded)
            assert sources & {"mesa", "vendor"}
            if "mesa" not in sources:
                others.update(program.layers[task.layer].nodes)
    assert others == set()


@needs_models
@pytest.mark.parametrize("name", UINT8)
def test_forms_of_mesas_driver_are_enough_for_convolutions(name: str) -> None:
    """Additions and pools may stay on the CPU then."""
    mesa = known_forms(row for row in rows_of("rk3588") if row["source"] == "mesa")
    result = compiled(name, mesa)
    expected = {
        node.index
        for node in result.graph.nodes
        if node.op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
    }
    assert expected <= operators_on_npu(result)
    assert all(mesa.unknown(form) == () for form in forms_of(result))


def test_the_page_is_not_stale() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    assert text == page(used_forms()), f"{PAGE} is stale: run python -m tools.form_page"


@needs_models
@pytest.mark.slow
def test_the_counted_forms_are_those_of_the_models() -> None:
    stale = "tools/used_forms.json is stale: run python tools/used_forms.py ../shared/models"
    assert used_forms() == document(models_in(MODELS)), stale


@needs_models
def test_a_chip_without_known_forms_gets_nothing() -> None:
    assert compiled(UINT8[0], known_forms(())).partitions == ()


def test_settings_that_hung_are_refused_in_every_mode() -> None:
    bad = [(kind, settings) for kind, rows in KNOWN.bad.items() for settings, _ in rows]
    assert bad
    for kind, settings in bad:
        form = Form(kind, {name: value for name, value in settings.items() if value not in ZEROS})
        assert KNOWN.refusal(form), (kind, settings)
        # A setting that has to be 0 is something else.
        zero = next((name for name, value in settings.items() if value in ZEROS), None)
        if zero is not None:
            other = Form(kind, {**form.settings, zero: "0xabc"})
            assert not KNOWN.refusal(other), (kind, zero)


@pytest.mark.parametrize("op", ["ADD", "SUB"])
@pytest.mark.parametrize("is_first", [True, False])
def test_sums_of_a_map_and_a_number_in_fp16_have_known_settings(op: str, is_first: bool) -> None:
    builder = Net("sum")
    x = builder.input("x", (1, 5, 6, 24), DType.FLOAT32)
    number = builder.constant("number", np.array(0.75, np.float32))
    given = (number, x) if is_first else (x, number)
    options = {"ADD": AddOptions, "SUB": SubOptions}[op]()
    made = builder.result(op, given, "sum", (1, 5, 6, 24), dtype=DType.FLOAT32, options=options)
    chosen = Options.from_mapping({"float": "fp16", "deny_ops": "NONE"}, {})
    result = compile_model(builder.build(made), chosen, chip=RK3588)
    assert not result.rejections
    assert [KNOWN.unknown(form) for form in forms_of(result)] == [()]
