"""Whether the features of a chip name every setting that its programs hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from delegate.chip.features import FACTS, Feature, Settings
from delegate.chip.register_model import Field, RegisterMap
from delegate.chip.registers import REGISTERS, register

_ON, _OFF = (1,), (0,)

EVERYWHERE: Final[Settings] = {
    "ENABLE.OPERATION_ENABLE.CORE": _ON,
    "ENABLE.OPERATION_ENABLE.DPU": _ON,
    "ENABLE.OPERATION_ENABLE.DPU_RDMA": _ON,
    "CNA.DMA_CON0.OV4K_BYPASS": _OFF,
    "CNA.DCOMP_CTRL.WT_DEC_BYPASS": _OFF,
    "DPU_RDMA.RDMA_ERDMA_CFG.OV4K_BYPASS": _OFF,
    "CNA.CVT_CON0.DATA_SIGN": _ON,
    "CNA.CVT_CON0.CVT_TYPE": _ON,
    "CNA.DMA_CON0.DATA_BURST_LEN": (15,),
    "CNA.DMA_CON0.WEIGHT_BURST_LEN": (15,),
    "CORE.MISC_CFG.QD_EN": _ON,
    "DPU.BS_OW_CFG.OD_BYPASS": _OFF,
    "DPU.FEATURE_MODE_CFG.BURST_LEN": (15,),
    "DPU.FEATURE_MODE_CFG.OUTPUT_MODE": (2,),
    "DPU.S_POINTER.POINTER_PP_MODE": _ON,
    "DPU.S_POINTER.POINTER_PP_EN": _ON,
    "DPU.S_POINTER.EXECUTER_PP_EN": _ON,
    "DPU_RDMA.RDMA_S_POINTER.POINTER_PP_MODE": _ON,
    "DPU_RDMA.RDMA_S_POINTER.POINTER_PP_EN": _ON,
    "DPU_RDMA.RDMA_S_POINTER.EXECUTER_PP_EN": _ON,
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.BURST_LEN": (15,),
    "DPU.EW_CFG.EDATA_SIZE": (1,),
    "DPU_RDMA.RDMA_ERDMA_CFG.ERDMA_DATA_SIZE": (1,),
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.IN_PRECISION": (2,),
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.PROC_PRECISION": (2,),
    "DPU_RDMA.RDMA_FEATURE_MODE_CFG.MRDMA_FP16TOFP32_EN": _ON,
    "DPU.EW_CFG.EW_OP_CVT_BYPASS": _OFF,
    "DPU.LUT_ACCESS_CFG.LUT_TABLE_ID": _ON,
}
"""What every program of the drivers in use sets, or what has no meaning of its own."""


def is_mode(item: Field) -> bool:
    """Whether a field selects what the hardware does: a switch, or one of named values."""
    return item.hi == item.lo or item.enum is not None


def check_names(settings: Settings, registers: RegisterMap = REGISTERS) -> None:
    """Raises KeyError for a name that is no field, address register or fact of a task."""
    for name in settings:
        place, _, last = name.rpartition(".")
        if name in FACTS:
            continue
        if "." in place:
            registers.register(place).field(last)
        elif not registers.register(name).is_address:
            raise KeyError(f"{name} is neither a field nor an address register")


def unnamed_settings(
    values: Mapping[str, int], features: tuple[Feature, ...], everywhere: Settings
) -> Iterator[str]:
    """Modes that a task's fields hold and that neither a used feature nor ``everywhere`` names.

    A switch whose name ends with BYPASS or DISABLE acts when it is 0, unless its stage is off.
    """
    named: dict[str, set[int]] = {name: set(numbers) for name, numbers in everywhere.items()}
    for feature in features:
        if feature.is_used(values):
            for name, numbers in feature.settings.items():
                named.setdefault(name, set()).update(numbers or {values[name]})
    for name, value in values.items():
        place, _, last = name.rpartition(".")
        if "." not in place or name in FACTS or not is_mode(register(place).field(last)):
            continue
        if last.endswith(("BYPASS", "DISABLE")):
            acts = value == 0 and not _stage_is_off(values, place)
        else:
            acts = value != 0
        if acts and value not in named.get(name, ()):
            yield f"{name} = {value}"


def _stage_is_off(values: Mapping[str, int], place: str) -> bool:
    """``place`` is the register of a DPU stage's switches: BS_CFG, BN_CFG or EW_CFG."""
    stage = place.rpartition(".")[2].removesuffix("_CFG")
    return values.get(f"{place}.{stage}_BYPASS", 0) == 1
