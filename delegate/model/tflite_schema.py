"""The numbers of the public TensorFlow Lite schema (version 3, file identifier TFL3) that this
project uses, as data.

Slots are the positions of a table's fields, counted from 0; enumerations carry the schema's values,
which differ in places from the runtime's (``TensorType``, ``Padding``). Tables and fields that
nobody here reads are left out. Source: the public schema as of LiteRT 2.3.0; it only ever appends,
so older files read the same.
"""

from __future__ import annotations

import enum

from delegate.model.graph import DType

FILE_IDENTIFIER = b"TFL3"
SCHEMA_VERSION = 3


class ModelSlot(enum.IntEnum):
    VERSION = 0
    OPERATOR_CODES = 1
    SUBGRAPHS = 2
    DESCRIPTION = 3
    BUFFERS = 4
    METADATA_BUFFER = 5
    METADATA = 6
    SIGNATURE_DEFS = 7


class SubGraphSlot(enum.IntEnum):
    TENSORS = 0
    INPUTS = 1
    OUTPUTS = 2
    OPERATORS = 3
    NAME = 4


class TensorSlot(enum.IntEnum):
    SHAPE = 0
    TYPE = 1
    BUFFER = 2
    NAME = 3
    QUANTIZATION = 4
    IS_VARIABLE = 5
    SPARSITY = 6
    SHAPE_SIGNATURE = 7
    HAS_RANK = 8
    VARIANT_TENSORS = 9
    EXTERNAL_BUFFER = 10


class SparsitySlot(enum.IntEnum):
    TRAVERSAL_ORDER = 0
    BLOCK_MAP = 1
    LEVELS = 2


class SparseLevelSlot(enum.IntEnum):
    FORMAT = 0
    DENSE_SIZE = 1
    SEGMENTS_TYPE = 2
    SEGMENTS = 3
    INDICES_TYPE = 4
    INDICES = 5


SPARSE_FORMATS = (0, 1)
"""DimensionType: dense, compressed (CSR)."""

SPARSE_INDICES = (None, "<i4", "<u2", "u1")
"""What a SparseIndexVector's table holds in its only field, by the union's number."""


class QuantizationSlot(enum.IntEnum):
    MIN = 0
    MAX = 1
    SCALE = 2
    ZERO_POINT = 3
    DETAILS_TYPE = 4
    DETAILS = 5
    QUANTIZED_DIMENSION = 6


class BufferSlot(enum.IntEnum):
    DATA = 0
    OFFSET = 1
    SIZE = 2


class OperatorCodeSlot(enum.IntEnum):
    DEPRECATED_BUILTIN_CODE = 0
    CUSTOM_CODE = 1
    VERSION = 2
    BUILTIN_CODE = 3


class OperatorSlot(enum.IntEnum):
    OPCODE_INDEX = 0
    INPUTS = 1
    OUTPUTS = 2
    BUILTIN_OPTIONS_TYPE = 3
    BUILTIN_OPTIONS = 4
    CUSTOM_OPTIONS = 5
    CUSTOM_OPTIONS_FORMAT = 6
    MUTATING_VARIABLE_INPUTS = 7
    INTERMEDIATES = 8


class MetadataSlot(enum.IntEnum):
    NAME = 0
    BUFFER = 1


class SignatureSlot(enum.IntEnum):
    INPUTS = 0
    OUTPUTS = 1
    SIGNATURE_KEY = 2
    SUBGRAPH_INDEX = 4


class TensorMapSlot(enum.IntEnum):
    NAME = 0
    TENSOR_INDEX = 1


class QuantizationDetails(enum.IntEnum):
    """The union type of ``QuantizationParameters.details``; NONE and CUSTOM leave scale and
    zero_point valid."""

    NONE = 0
    CUSTOM = 1
    BLOCKWISE = 2
    MULTI_AXIS = 3


# TensorType -> DType: the schema numbers FLOAT16 as 1 and so shifts what the runtime (and DType)
# number from 1.
TENSOR_TYPES: tuple[DType, ...] = (
    DType.FLOAT32,
    DType.FLOAT16,
    DType.INT32,
    DType.UINT8,
    DType.INT64,
    DType.STRING,
    DType.BOOL,
    DType.INT16,
    DType.COMPLEX64,
    DType.INT8,
    DType.FLOAT64,
    DType.COMPLEX128,
    DType.UINT64,
    DType.RESOURCE,
    DType.VARIANT,
    DType.UINT32,
    DType.UINT16,
    DType.INT4,
    DType.BFLOAT16,
)
