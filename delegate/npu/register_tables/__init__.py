"""The register table as data, a file per hardware block; ``delegate.npu.registers`` joins them."""
