"""Independent check: programs of a driver in use on silicon, decoded and encoded again by us."""

import json

import numpy as np

from delegate.chip.rk3588 import RK3588
from delegate.chip.rk3588.registers import REGISTERS
from delegate.lower.numerics.pipeline import OutConvert
from delegate.lower.task import (
    BsStage,
    BufferId,
    ConvTask,
    FeatureInput,
    OutputCube,
    Ref,
    Source,
    Weights,
)
from delegate.npu.regcmd import encode_task, tail_words, unpack_word
from tests.loops import for_each
from tests.shared_folder import capture_files

# Fields where that driver chose otherwise, and why ours differs on purpose.
DIFFERENT = {
    "CNA.CONV_CON2.FEATURE_GRAINS": "prefetch depth; theirs is always about 52 rows",
    "CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL": "the vendor keeps it modulo 64, they do not",
    "CNA.PAD_CON1.PAD_VALUE": "in 4 of 99 streams they double dense bytes, or single depthwise",
    "CORE.CLIP_TRUNCATE.CLIP_TRUNCATE": "theirs is from a table of weight scales, unexplained",
}


def streams(path):
    with np.load(path, allow_pickle=False) as archive:
        manifest = json.loads(bytes(archive["manifest"]))
        for job in manifest["jobs"]:
            for task in job["tasks"]:
                for item in manifest["buffers"]:
                    start = task["regcmd"] - item["dma_address"]
                    if 0 <= start < item["size"]:
                        # The stored content may be shorter than the buffer: the rest is zero.
                        raw = np.zeros(8 * task["regcmd_count"], np.uint8)
                        content = archive["buffer_" + item["name"]][start : start + raw.size]
                        raw[: content.size] = content
                        yield [int(word) for word in raw.view("<u8")]


every_capture = for_each("path", capture_files())


def task_of(value):
    """The ConvTask that the registers describe; addresses become offsets into CONSTANTS."""

    def get(path):
        block, name, field = path.split(".")
        target = REGISTERS.by_name[f"{block}.{name}"]
        return target.field(field).decode(value[target.full_name])

    def place(name):
        return Ref(BufferId.CONSTANTS, value[name])

    # Whole rows: LINE_STRIDE is the pixels of four of them, 16 bytes each.
    line = 4 * get("CNA.DMA_CON1.LINE_STRIDE")
    surface = get("DPU.DST_SURF_STRIDE.DST_SURF_STRIDE")
    pad = get("CNA.PAD_CON1.PAD_VALUE") & 0xFF
    return ConvTask(
        tile="",
        feature=FeatureInput(
            source=place("CNA.FEATURE_DATA_ADDR"),
            height=get("CNA.DATA_SIZE0.DATAIN_HEIGHT"),
            width=get("CNA.DATA_SIZE0.DATAIN_WIDTH"),
            channels=get("CNA.DATA_SIZE1.DATAIN_CHANNEL"),
            channels_real=get("CNA.DATA_SIZE1.DATAIN_CHANNEL_REAL") + 1,
            line_stride_bytes=line,
            surface_stride_bytes=16 * (get("CNA.DMA_CON2.SURF_STRIDE") + line // 4),
            entries_per_row=get("CNA.CBUF_CON1.DATA_ENTRIES"),
            pad_top=get("CNA.PAD_CON0.PAD_TOP"),
            pad_left=get("CNA.PAD_CON0.PAD_LEFT"),
            pad_value=pad - 256 if pad & 0x80 else pad,
        ),
        weights=Weights(
            source=place("CNA.DCOMP_ADDR0"),
            total_bytes=get("CNA.WEIGHT_SIZE0.WEIGHT_BYTES"),
            bytes_per_kernel=get("CNA.WEIGHT_SIZE1.WEIGHT_BYTES_PER_KERNEL"),
            kernels=get("CNA.WEIGHT_SIZE2.WEIGHT_KERNELS"),
            kh=get("CNA.WEIGHT_SIZE2.WEIGHT_HEIGHT"),
            kw=get("CNA.WEIGHT_SIZE2.WEIGHT_WIDTH"),
        ),
        data_banks=get("CNA.CBUF_CON0.DATA_BANK"),
        weight_banks=get("CNA.CBUF_CON0.WEIGHT_BANK"),
        weight_reuse=bool(get("CNA.CBUF_CON0.WEIGHT_REUSE")),
        output=OutputCube(
            target=place("DPU.DST_BASE_ADDR"),
            height=get("DPU.DATA_CUBE_HEIGHT.HEIGHT"),
            width=get("DPU.DATA_CUBE_WIDTH.WIDTH"),
            channels=get("DPU.DATA_CUBE_CHANNEL.CHANNEL"),
            channels_real=get("DPU.DATA_CUBE_CHANNEL.ORIG_CHANNEL"),
            surface_stride_bytes=surface,
            surfaces_per_group=get("DPU.SURFACE_ADD.SURF_ADD") // surface,
        ),
        bs=BsStage(
            alu=Source.MEMORY,
            ow=Source.REGISTER,
            ow_operand=get("DPU.BS_OW_OP.OW_OP"),
            operands=place("DPU_RDMA.RDMA_BS_BASE_ADDR"),
        ),
        out_convert=OutConvert(
            scale=get("DPU.OUT_CVT_SCALE.OUT_CVT_SCALE"),
            shift=get("DPU.OUT_CVT_SHIFT.OUT_CVT_SHIFT"),
            offset=get("DPU.OUT_CVT_OFFSET.OUT_CVT_OFFSET"),
        ),
        strides=(get("CNA.CONV_CON3.CONV_Y_STRIDE"), get("CNA.CONV_CON3.CONV_X_STRIDE")),
        dilations=(get("CNA.CONV_CON3.ATROUS_Y_DILATION"), get("CNA.CONV_CON3.ATROUS_X_DILATION")),
        is_depthwise=get("CNA.CONV_CON1.CONV_MODE") == 3,
    )


@every_capture
def test_reencoding_gives_the_captured_words(path):
    for words in streams(path):
        body = [unpack_word(int(word)) for word in words[:-4]]
        value = {command.register.full_name: command.value for command in body}
        ours = [unpack_word(word) for word in encode_task(RK3588, "capture", task_of(value)).words]
        assert {c.register.full_name for c in ours} == set(value)
        assert len(ours) == len(body)
        # Same order, too: theirs and ours both follow the vendor's streams.
        assert [c.register.full_name for c in ours] == [c.register.full_name for c in body]
        differing = {
            f"{c.register.full_name}.{field.name}"
            for c in ours
            for field in c.register.fields
            if field.decode(c.value) != field.decode(value[c.register.full_name])
        }
        assert differing <= set(DIFFERENT)


@every_capture
def test_tails_have_the_captured_form(path):
    found = list(streams(path))
    assert found
    for words in found:
        tail = words[-4:]
        link = tail[0] & (0xFFFFFFFF << 16)
        expected = list(tail_words(126 if link else None, 0x1D))
        # That driver ends a chain of several tasks with a link to address 0; the vendor, and we,
        # with an empty word.
        expected[0] = expected[0] | link if link else tail[0]
        assert tail[0] in (0, 0x0101 << 48 | link | 0x10)
        assert tail == expected
