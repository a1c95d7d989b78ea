"""Blocks that repeat: every item once and in order, and what was repeated is found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.insight.compile_report.document import Block, repeated_blocks


@given(st.lists(st.integers(0, 2), max_size=60))
def test_blocks_give_the_items_again(items: list[int]) -> None:
    again: list[int] = []
    for block in repeated_blocks(items):
        assert block.first == len(again)
        assert block.times == 1 or block.length * block.times > 2
        assert block.times > 1 or block.length == 1
        again += items[block.first : block.first + block.length] * block.times
    assert again == items


@given(st.integers(1, 12), st.integers(2, 9))
def test_a_repeated_block_is_one(length: int, times: int) -> None:
    """Items that differ from each other within the block, and from those around it."""
    items = ["begin", *list(range(length)) * times, "end"]
    found = repeated_blocks(items)
    if length * times == 2:  # one box instead of two would tell less
        assert all(block.times == 1 for block in found)
    else:
        assert found == (Block(0, 1, 1), Block(1, length, times), Block(len(items) - 1, 1, 1))


@pytest.mark.parametrize("items", ["", "a", "ab", "aa", "abcd"])
def test_what_does_not_repeat_stays(items: str) -> None:
    assert repeated_blocks(items) == tuple(Block(i, 1, 1) for i in range(len(items)))
