"""Programs: segments and links, determinism, round trip, and refusal of everything odd."""

import dataclasses
import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.chip.element import Element
from delegate.compile.compiler import compile_model
from delegate.errors import EncodingError, ProgramError
from delegate.lower.lowered import Layer, Spread
from delegate.lower.task import BnStage, BsStage, BufferId, EwStage, Ref, Source
from delegate.npu import FORMAT_VERSION, program_types
from delegate.npu.program import build_program, parse, serialize
from delegate.npu.program_reader import open_program
from delegate.npu.regcmd import unpack_word
from delegate.options import Options
from tests.npu.sample_programs import chain_partition, resealed
from tests.npu.sample_tasks import conv_task
from tests.partition.rule_graphs import conv
from tests.processes import python

COMPILER = "rk3588-delegate 0.1.0"


@pytest.fixture(scope="module")
def program():
    return build_program(chain_partition(), COMPILER)


@pytest.fixture(scope="module")
def data(program):
    return serialize(program)


def test_segments_are_aligned_and_linked(program):
    assert [task.regcmd_offset for task in program.tasks] == [0, 0x440, 0x880]
    assert [task.regcmd_count for task in program.tasks] == [130, 130, 73]
    assert program.buffers[BufferId.REGCMD].size_bytes == 0x880 + 80 * 8
    assert [task.enable_mask for task in program.tasks] == [0x1D, 0x1D, 0x18]
    words = program.words().tolist()
    ends = [task.regcmd_offset // 8 + task.regcmd_count for task in program.tasks]
    tails = [tuple(words[end - 4 : end]) for end in ends]
    assert tails[0] == (
        0x0101_0000_0440_0010,
        0x0101_0000_0040_0014,
        0x41 << 48,
        0x0081_0000_001D_0008,
    )
    assert tails[1] == (
        0x0101_0000_0880_0010,
        0x0101_0000_0024_0014,
        0x41 << 48,
        0x0081_0000_001D_0008,
    )
    assert tails[2] == (0, 0x0101_0000_0000_0014, 0x41 << 48, 0x0081_0000_0018_0008)


def test_every_address_is_relocated(program):
    names = {}
    for reloc in program.relocs:
        command = unpack_word(int(program.words()[reloc.word]))
        names.setdefault(command.register.full_name, []).append((reloc.buffer, reloc.addend))
    assert names["CNA.FEATURE_DATA_ADDR"] == [(BufferId.INPUT, 0), (BufferId.INPUT, 4 * 6 * 16)]
    assert names["PC.BASE_ADDRESS"] == [(BufferId.REGCMD, 0x440), (BufferId.REGCMD, 0x880)]
    assert names["DPU.DST_BASE_ADDR"] == [
        (BufferId.SCRATCH, 0),
        (BufferId.SCRATCH, 480),
        (BufferId.OUTPUT, 0),
    ]
    assert names["CNA.DCOMP_ADDR0"] == [(BufferId.CONSTANTS, 1024)] * 2
    words = [reloc.word for reloc in program.relocs]
    assert words == sorted(words)


def test_tasks_carry_layer_tile_and_estimate(program):
    assert [task.layer for task in program.tasks] == [0, 0, 1]
    assert [task.tile for task in program.tasks] == ["rows 0..4", "rows 5..7", ""]
    assert program.layers[1].nodes == (1,)
    # 5*6 pixels in groups of 16, one kernel group, 9 steps
    assert program.tasks[0].npu_cycles == 32 * 9
    # rows in, weights, rows out; the second tile has its weights already
    assert program.tasks[0].bytes == 6 * 6 * 16 + 9 * 16 * 16 + 5 * 6 * 16
    assert program.tasks[1].bytes == 4 * 6 * 16 + 3 * 6 * 16
    assert program.tasks[2].bytes == 3 * 8 * 6 * 16
    assert program.estimate.cycles == sum(task.estimate.cycles for task in program.tasks)


def test_serialised_program_round_trips(program, data):
    assert data[4:8] == b"RKNP"
    assert parse(data) == program
    assert serialize(parse(data)) == data


def test_bytes_do_not_depend_on_the_run(data):
    code = (
        "import hashlib; from tests.npu.sample_programs import chain_partition; "
        "from delegate.npu.program import build_program, serialize; "
        f"data = serialize(build_program(chain_partition(), {COMPILER!r})); "
        "print(hashlib.sha256(data).hexdigest())"
    )
    digest = hashlib.sha256(data).hexdigest()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        result = python("-c", code, env=environment, check=True)
        assert result.stdout.strip() == digest


def test_no_tables_share_a_vtable(data):
    """Sharing is where releases of the flatbuffers package differ, and so would the bytes."""
    tasks = list(open_program(data).tables(6, "task"))
    assert len({task.vtable for task in tasks}) == len(tasks) == 3


def test_megabytes_of_constants_are_fast_and_exact(program):
    content = np.random.default_rng(0).integers(0, 256, 8 << 20, dtype=np.uint8).tobytes()
    buffers = list(program.buffers)
    buffers[BufferId.CONSTANTS] = dataclasses.replace(
        buffers[BufferId.CONSTANTS], size_bytes=len(content), content=content
    )
    large = dataclasses.replace(program, buffers=tuple(buffers))
    assert parse(serialize(large)) == large


# The chain's buffers: CONSTANTS 8192, SCRATCH 1536, INPUT 768, OUTPUT 768 bytes.
FITTING = {
    "h": 4,
    "w": 6,
    "c": 16,
    "oc": 16,
    "source": Ref(BufferId.INPUT, 384),
    "weights": Ref(BufferId.CONSTANTS, 8192 - 9 * 16 * 16),
    "target": Ref(BufferId.SCRATCH, 768),
    "bs": BsStage(alu=Source.MEMORY, operands=Ref(BufferId.CONSTANTS, 8192 - 128)),
}
BLOCKS = BsStage(alu=Source.MEMORY, mul=Source.MEMORY, operands=Ref(BufferId.CONSTANTS, 8192 - 128))
BN = BnStage(mul=Source.MEMORY, operands=Ref(BufferId.CONSTANTS, 8192 - 48))
EW = EwStage(operand=Ref(BufferId.INPUT, 0), surface_stride_bytes=400)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"source": Ref(BufferId.INPUT, 400)}, "the input: bytes 400..783 of INPUT"),
        (
            {"weights": Ref(BufferId.CONSTANTS, 8192 - 9 * 16 * 16 + 16)},
            "the weights: bytes 5904..8207 of CONSTANTS",
        ),
        ({"bs": BLOCKS}, "the BS operands: bytes 8064..8319"),
        ({"bn": BN}, "the BN operands: bytes 8144..8207"),
        ({"ew": EW}, "the EW operand: bytes 0..783 of INPUT"),
        # 16 channels are written as two surfaces of 16.
        ({"target": Ref(BufferId.SCRATCH, 784)}, "the output: bytes 784..1551 of SCRATCH"),
        ({"target": Ref(BufferId.CONSTANTS, 0)}, "the output is in CONSTANTS, which is read"),
    ],
)
def test_a_task_that_runs_over_its_buffers_is_refused(changes, problem):
    lowered = chain_partition()
    added = Layer("2 CONV_2D", "CONV_2D", (2,), (conv_task(**{**FITTING, **changes}),))
    changed = dataclasses.replace(lowered, layers=(*lowered.layers, added))
    if problem is None:
        build_program(changed, COMPILER)
        return
    with pytest.raises(ProgramError, match=f"layer 2 CONV_2D.*{problem}"):
        build_program(changed, COMPILER)


def test_what_no_device_takes_stays_on_the_cpu():
    """Names of a model may be longer than the loader takes."""
    graph = conv()
    named = [dataclasses.replace(tensor, name="x" * (9 << 20)) for tensor in graph.tensors]
    result = compile_model(dataclasses.replace(graph, tensors=tuple(named)), Options(deny_ops=()))
    (rejection,) = result.rejections
    assert (rejection.rule, result.partitions) == ("partition_compiles", ())
    assert "names are too long" in rejection.detail


def test_reuse_of_weights_that_are_not_there_is_refused():
    lowered = chain_partition()
    first, second = lowered.layers[0].tasks
    moved = dataclasses.replace(second.weights, source=Ref(BufferId.CONSTANTS, 2048))
    for tasks in ((second,), (first, dataclasses.replace(second, weights=moved))):
        layers = (dataclasses.replace(lowered.layers[0], tasks=tasks), lowered.layers[1])
        with pytest.raises(EncodingError, match=r"rows 5..7: CNA.CBUF_CON0.WEIGHT_REUSE needs"):
            build_program(dataclasses.replace(lowered, layers=layers), COMPILER)


def test_an_encoding_error_carries_the_nodes_of_its_layer():
    lowered = chain_partition()
    added = Layer("2 CONV_2D", "CONV_2D", (2, 7), (conv_task(pad_top=16),))
    changed = dataclasses.replace(lowered, layers=(*lowered.layers, added))
    with pytest.raises(EncodingError, match=r"layer 2 CONV_2D: CNA.PAD_CON0.PAD_TOP") as caught:
        build_program(changed, COMPILER)
    assert caught.value.nodes == (2, 7)


def changed_task(program, index, **changes):
    tasks = list(program.tasks)
    tasks[index] = dataclasses.replace(tasks[index], **changes)
    return dataclasses.replace(program, tasks=tuple(tasks))


def changed_output(program, **changes):
    binding = dataclasses.replace(program.outputs[0], **changes)
    return dataclasses.replace(program, outputs=(binding,))


DENSE = Spread(0, 0, 96, 16, 1)


def boxes(program, *spreads):
    (output,) = program.outputs
    return dataclasses.replace(
        program, outputs=tuple(dataclasses.replace(output, spread=s) for s in spreads)
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda p: dataclasses.replace(p, tasks=()), "has no tasks"),
        (lambda p: dataclasses.replace(p, buffers=p.buffers[:4]), "has 4 buffers"),
        (lambda p: dataclasses.replace(p, relocs=p.relocs[::-1]), "out of order"),
        (lambda p: dataclasses.replace(p, relocs=p.relocs[1:]), "unrelocated"),
        (lambda p: changed_task(p, 1, regcmd_offset=0x420), "no multiple of 64"),
        (lambda p: changed_task(p, 1, regcmd_offset=0), "overlaps"),
        (lambda p: changed_task(p, 1, regcmd_count=4), "has no commands"),
        (lambda p: changed_task(p, 2, regcmd_count=1 << 20), "overlaps"),
        (lambda p: changed_task(p, 0, layer=2), "names layer 2"),
        (lambda p: changed_task(p, 2, job=1), "does not end the chain"),
        (lambda p: changed_task(p, 1, job=2), "in job 2 after job 0"),
        (lambda p: changed_task(p, 0, enable_mask=0x18), "starts other blocks"),
        (lambda p: changed_output(p, channels=17), "elements"),
        (lambda p: changed_output(p, shape=(8, 6, 15)), "elements"),
        (lambda p: changed_output(p, surfaces=2, surface_stride_bytes=64), "surfaces of 64 bytes"),
        (lambda p: changed_output(p, image_stride_bytes=8), "no multiple of 16"),
        (lambda p: dataclasses.replace(p, outputs=p.outputs * 2), "binds an output tensor twice"),
        (lambda p: dataclasses.replace(p, outputs=()), "has no outputs"),
        (lambda p: changed_output(p, location=Ref(BufferId.OUTPUT, 16)), "ends outside OUTPUT"),
        (lambda p: changed_output(p, location=Ref(BufferId.CONSTANTS, 0)), "is in CONSTANTS"),
        (lambda p: changed_output(p, fill=128), "fill 128"),
        (lambda p: changed_output(p, spread=Spread(0, 0, 96, 16, 1), height=7), "in its boxes"),
        (lambda p: changed_output(p, spread=Spread(1, 0, 96, 16, 1)), "reaches beyond"),
        (lambda p: changed_output(p, spread=Spread(0, 0, 96, 16, -1)), "reaches beyond"),
        (lambda p: changed_output(p, spread=DENSE, element=Element.INT16), "several bytes"),
        (lambda p: boxes(p, DENSE, None), "of different tensors"),
    ],
)
def test_inconsistent_programs_are_refused(program, change, problem):
    with pytest.raises(ProgramError, match=problem):
        serialize(change(program))


def test_every_truncation_is_refused(data):
    for size in [*range(200), *range(200, len(data), 97)]:
        with pytest.raises(ProgramError):
            parse(data[:size])


def test_a_flipped_bit_is_refused_by_the_checksum(data):
    for position in range(8, len(data), 61):
        broken = bytearray(data)
        broken[position] ^= 0x10
        with pytest.raises(ProgramError):
            parse(bytes(broken))


@pytest.mark.parametrize("name", ["Buffer", "Layer", "Task", "Binding", "Program"])
def test_tables_are_those_of_the_schema(name):
    """Writer and reader share one table of fields, which no round trip judges."""
    schema = Path(program_types.__file__).with_name("program.fbs").read_text(encoding="utf-8")
    body = re.search(rf"table {name} {{(.*?)}}", schema, re.DOTALL)
    found = re.findall(r"(\w+):([\w\[\]]+) \(id: (\d+)\)", body[1])
    assert [int(number) for *_, number in found] == list(range(len(found)))
    if name == "Program":
        named = {slot.name.lower(): int(slot) for slot in program_types.Slot}
        assert named == {field.removeprefix("format_"): int(number) for field, _, number in found}
        return
    fields = getattr(program_types, name.upper())
    expected = [
        (field.removeprefix("location.").removesuffix("_bytes").replace(".", "_"), kind)
        for field, kind in fields.items()
    ]
    kinds = {"uint8": "<B", "int8": "<b", "uint32": "<I", "int32": "<i", "uint64": "<Q"}
    kinds["float"] = "<f"
    assert [(field, kind.value.partition(",")[0]) for field, kind in expected] == [
        (field, kinds.get(kind, kind)) for field, kind, _ in found
    ]


def test_another_version_is_refused(program, data, monkeypatch):
    monkeypatch.setattr("delegate.npu.program.FORMAT_VERSION", FORMAT_VERSION + 1)
    with pytest.raises(ProgramError, match=f"format version {FORMAT_VERSION + 1}"):
        parse(serialize(program))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damage_behind_a_valid_checksum_is_an_error_or_a_consistent_program(data, draw):
    """An attacker may write any bytes with the right checksum: they never crash and never hang."""
    broken = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 6))):
        position = draw.draw(st.integers(0, len(broken) - 1))
        broken[position] = draw.draw(st.integers(0, 255))
    try:
        parsed = parse(resealed(broken))
    except ProgramError:
        return
    assert parse(serialize(parsed)) == parsed


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(content):
    with pytest.raises(ProgramError):
        parse(content[:4] + b"RKNP" + content[4:])
