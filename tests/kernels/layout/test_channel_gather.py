"""Runs of blocks of a channel gather: they write each block once, from the channels that were asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cenote.kernels.layout.channel_gather import Sources, runs_of


def written(sources: Sources, lanes: int) -> list[tuple[int, int] | None]:
    """The source of each lane that the runs write, in the output's order."""
    blocks: dict[int, list[tuple[int, int] | None]] = {}
    for run in runs_of(sources, lanes):
        for number in range(run.count):
            block, *parts = (first + step * number for first, step in zip(run.first, run.step, strict=True))
            assert block not in blocks
            blocks[block] = [
                (run.tensors[source], parts[source] * lanes + lane) for source, lane in run.homes
            ]
    return [lane for block in sorted(blocks) for lane in blocks[block]]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), min_size=1, max_size=70),
    st.sampled_from([4, 8, 16]),
)
def test_runs_write_what_was_asked_for(sources: list[tuple[int, int]], lanes: int) -> None:
    assert written(tuple(sources), lanes) == sources


def test_a_shuffle_has_few_runs() -> None:
    sources = tuple((half, channel) for channel in range(58) for half in range(2))
    assert written(sources, 4) == list(sources)
    assert len(runs_of(sources, 4)) == 2  # 29 blocks: the lower and the upper lanes of both halves


def test_a_copy_is_one_run() -> None:
    assert len(runs_of(tuple((0, channel) for channel in range(64)), 8)) == 1
