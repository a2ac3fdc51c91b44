"""Paddings of dilated convolutions that a graph computes: what is left of them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import GraphBuilder
from cenote.frontends.channels_last import pads_less_crops


def graph(block: int, begin: int = 2, end: int = 3, axis: int = 1) -> tuple[GraphBuilder, str, str]:
    """As TensorFlow writes them: the end is padded until the block divides the height, and so much is cropped."""
    build = GraphBuilder()
    x = build.input("x", np.dtype(np.float32), (None, None, None, 3))
    height = build.add("Gather", build.add("Shape", x), build.integers([axis]))
    full = build.add("Add", height, build.integers([begin + end]))
    size = build.integers([block])
    over = build.add("Mod", build.add("Sub", size, build.add("Mod", full, size)), size)
    first = build.add("Add", over, build.integers([end]))
    pads = build.add("Concat", build.integers([begin]), first, axis=0)
    crops = build.add("Concat", build.integers([0]), over, axis=0)
    one_row = build.integers([1, 2])
    return build, build.add("Reshape", pads, one_row), build.add("Reshape", crops, one_row)


@pytest.mark.parametrize("block", [1, 2, 3, 7, 64])
def test_what_is_left_holds_for_any_size(block: int) -> None:
    assert pads_less_crops(*graph(block), [block]) == [(2, 3)]


def test_constants_are_subtracted() -> None:
    build = GraphBuilder()
    pads, crops = build.integers([[2, 3], [1, 1]]), build.integers([[0, 1], [0, 0]])
    assert pads_less_crops(build, pads, crops, [2, 2]) == [(2, 2), (1, 1)]
    with pytest.raises(ModelError, match=r"paddings of shape \[2, 2\] for 1 axes"):
        pads_less_crops(build, pads, crops, [2])


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("block", [2, 3, 4, 5, 8, 11])
def test_paddings_that_grow_with_the_picture_are_refused(block: int, axis: int) -> None:
    """Whichever side they follow, and whatever the block."""
    build, pads, _ = graph(block, axis=axis)
    with pytest.raises(UnsupportedError, match="not those of a dilated convolution"):
        pads_less_crops(build, pads, build.integers([[0, 0]]), [block])


def test_a_block_of_too_many_sizes_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"a block of \[65\]"):
        pads_less_crops(*graph(2), [65])


def test_paddings_out_of_an_input_are_refused() -> None:
    build = GraphBuilder()
    pads = build.input("pads", np.dtype(np.int64), (1, 2))
    with pytest.raises(UnsupportedError, match="from the content of an input"):
        pads_less_crops(build, pads, build.integers([[0, 0]]), [2])
