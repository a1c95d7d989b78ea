"""The register table as data, a file per hardware block; ``delegate.chip.registers`` joins them."""
