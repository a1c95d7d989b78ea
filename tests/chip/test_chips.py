"""Chips have names of their own, and the simulator takes any chip that it can model."""

from dataclasses import replace

import pytest

from delegate import _native
from delegate.chip.chip import native_chip
from delegate.chip.chips import every_chip
from delegate.chip.rk3588 import RK3588


def test_names_are_unique():
    assert len({chip.name for chip in every_chip()}) == len(every_chip())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"atom_bytes": 8}, "atoms of 16 bytes"),
        ({"groups": replace(RK3588.groups, dense_kernels=24)}, "dense_kernels"),
        ({"groups": replace(RK3588.groups, depthwise_channels=0)}, "depthwise_channels"),
        ({"groups": replace(RK3588.groups, input_lanes=8)}, "input_lanes"),
        ({"groups": replace(RK3588.groups, input_lanes=128)}, "input_lanes"),
        ({"rates": replace(RK3588.rates, step_pixels=0)}, "not 0"),
    ],
)
def test_chips_that_cannot_be_simulated_are_refused(change, problem):
    with pytest.raises(ValueError, match=problem):
        _native.simulate([], [], chip=native_chip(replace(RK3588, **change)))


def test_a_chip_needs_all_its_numbers():
    numbers = native_chip(RK3588)
    del numbers["input_lanes"]
    with pytest.raises(KeyError, match="input_lanes"):
        _native.simulate([], [], chip=numbers)
