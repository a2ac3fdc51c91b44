"""Arrays and numbers that calls of kernels take and that follow from sizes by more than a formula.

They are computed anew for every set of sizes (`core.computed`), also by a process that took its plan from the cache:
so this module imports nothing that emits code.
"""

from __future__ import annotations

import numpy as np

from cenote.core.errors import UnsupportedError
from cenote.core.types import Array


def tap_table(
    window: tuple[int, ...], steps: tuple[int, ...], origin: int, channels: int, channel_step: int
) -> Array:
    """The offsets of a window's taps, channel by channel, from `origin` on; steps are not negative."""
    taps = _taps(window, steps, origin)
    last = (channels - 1) * channel_step
    # A phase of a transposed convolution may have no taps.
    if max(last + max([0, *taps[-1:]]), origin) >= 1 << 31:
        raise UnsupportedError("conv: an image of more than 2**31 elements is not supported; split it")
    # The shortcut takes 1.5 us and not 4.9: a new size of MobileNet-v2 has 18 tables of one tap, of DenseNet-121 60.
    if len(taps) == 1 and last:
        table: Array = np.arange(taps[0], taps[0] + channels * channel_step, channel_step, dtype=np.int32)
    else:
        planes = np.arange(channels, dtype=np.int32) * np.int32(channel_step if last else 0)
        table = np.add.outer(planes, np.array(taps, np.int32)).ravel()
    return table


def part_table(
    window: tuple[int, ...],
    steps: tuple[int, ...],
    origin: int,
    channels: int,
    channel_step: int,
    taps: tuple[int, ...],
) -> Array:
    """The offsets of `tap_table` of the taps of a part of a window, tap by tap, then the numbers of their weights.
    `taps`: the numbers of the part's taps in the whole window."""
    offsets = tap_table(window, steps, origin, channels, channel_step).reshape(channels, -1).T
    numbers = np.add.outer(np.multiply(taps, channels), np.arange(channels))
    return np.concatenate((offsets.ravel(), numbers.ravel()), dtype=np.int32)


def ranged_tap_table(
    window: tuple[int, ...],
    steps: tuple[int, ...],
    origin: int,
    count: int,
    block_step: int,
    parts: int,
    part: int,
    ranges: tuple[tuple[int, int], ...],
) -> Array:
    """The offsets of `tap_table` for `count` parts of blocks, of `part` channels, of which a block has `parts`; then
    for each range of parts, given by its begin and length, its first tap and its number of taps."""
    blocks = tap_table(window, steps, origin, -(-count // parts), block_step)
    taps = np.prod(window)
    apart = np.arange(parts, dtype=np.int32)[:, None] * np.int32(part)
    offsets = (blocks.reshape(-1, 1, taps) + apart).reshape(-1)[: count * taps]
    table: Array = np.concatenate((offsets, np.array(ranges, np.int32).ravel() * taps)).astype(np.int32)
    return table


def window_table(
    window: tuple[int, ...], steps: tuple[int, ...], origin: int, blocks: int, block_step: int, row: int
) -> Array:
    """The offsets of `tap_table`, filled up to a multiple of `row` by the first one."""
    taps = tap_table(window, steps, origin, blocks, block_step)
    filled: Array = np.concatenate((taps, np.repeat(taps[:1], -len(taps) % row)))
    return filled


def row_table(window: tuple[int, ...], steps: tuple[int, ...], origin: int) -> Array:
    """Offsets of the rows (or taps) of a window from a pixel."""
    return np.array(_taps(window, steps, origin), np.int32)


def _taps(window: tuple[int, ...], steps: tuple[int, ...], origin: int) -> list[int]:
    """Offsets of a window's taps, in rising order."""
    taps = [-origin]
    for extent, step in zip(window, steps, strict=True):
        if extent != 1:
            taps = [tap + i * step for tap in taps for i in range(extent)]
    return taps


def region_places(
    window: tuple[int, ...],
    dilations: tuple[int, ...],
    strides: tuple[int, ...],
    phases: int,
    rows: int,
    pitch: int,
) -> Array:
    """Pixels from an output's position to where each tap reads in a region (`parts.regions`), row by row of the window;
    `phases`: of the columns."""
    down, across = (
        [divmod(tap * step, stride) for tap in range(taps)]
        for taps, step, stride in zip(window, dilations, strides, strict=True)
    )
    return np.array(
        [
            ((phase_h * phases + phase_w) * rows + h) * pitch + w
            for h, phase_h in down
            for w, phase_w in across
        ],
        np.int32,
    )


def whole_numbers(values: tuple[object, ...]) -> Array:
    """Numbers, or tuples of them, as an array."""
    return np.array(values, np.int64)


def zeros(count: int) -> Array:
    """Bias of zeros."""
    return np.zeros(count, np.float32)


def first_that_covers(pixels: int, widths: tuple[int, ...]) -> int:
    """The index of the first width that, with tiles one narrower, covers exactly so many pixels."""
    return next(
        index
        for index, width in enumerate(widths)
        if width == 1 or -(-pixels // width) <= pixels // (width - 1)
    )


def tiles_per_block(tiles: int, split: bool, least: int, most: int) -> int:
    """Number of a Winograd convolution's tiles that go through its phases together.

    When fused, V takes about half the level 2 cache (`most` tiles), but a block has at least `least` tiles to reuse the
    weights: 24, or 12 where the weights fit the cache. There are at least 8 blocks, a multiple of 4, where that is
    possible, for several threads to share. When `split` the weights are streamed once: a block is all tiles, up to 64.
    """
    if split:
        return -(-tiles // -(-tiles // 64))
    blocks = max(-(-tiles // most), min(8, tiles // least), 1)
    if 4 < blocks < 32:
        blocks = -(-blocks // 4) * 4
    return -(-tiles // blocks)


def planes_per_block(planes: int, most: int, taps: int, tiles: int) -> int:
    """Number of planes of a volume's result that go through a Winograd convolution's phases together, with eight tiles
    of each, or all where a plane has fewer.

    `most`: tiles of V in all; `taps` across planes: so many planes less one are transformed beside those of the block.
    """
    wanted = max(1, most // min(8, tiles) - (taps - 1))
    return -(-planes // -(-planes // wanted))


def tiles_per_plane(tiles: int, seen: int, most: int, run: int = 1) -> int:
    """Number of tiles of a plane that go through the phases together, where `seen` planes of x are transformed: whole
    runs, where there is room for one."""
    most = max(1, most // seen)
    block = -(-tiles // -(-tiles // most))
    whole = -(-block // run) * run
    return whole if whole <= most else max(block // run * run, min(block, run))
