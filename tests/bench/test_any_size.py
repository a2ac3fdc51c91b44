"""The sizes, counts and tables of the benchmarks of networks that take any size."""

from __future__ import annotations

from argparse import ArgumentParser
from math import prod

import numpy as np
import pytest

from bench.any_size import ANY_SIZE, PIXELS, AnySize, chosen_networks
from bench.engines import EngineSpec
from bench.new_sizes import Cost
from bench.new_sizes import row as cost_row
from bench.process import EngineProcess
from bench.streams import COLD, PEER, WARM, Line, Run, equal_letters, once, stream
from bench.streams import row as stream_row
from bench.worker import sample

DOUBLER = EngineSpec("doubler", "tests.bench.fake_engines", "Doubler")


@pytest.mark.parametrize("name", ANY_SIZE)
def test_sizes_are_seeded_different_and_within_bounds(name: str) -> None:
    network = ANY_SIZE[name]
    shapes = network.shapes(50, 11)
    assert shapes == network.shapes(50, 11)
    assert shapes != network.shapes(50, 12)
    assert len(set(shapes)) == 50
    for batch, channels, height, width in shapes:
        assert channels == 3
        assert 1 <= batch <= 16
        assert batch * height * width <= PIXELS
        assert 48 <= width <= 1200 if network.lines else 96 <= width <= 640
        assert height == 48 if network.lines else 96 <= height <= 640
        assert network.lines or height % network.multiple == width % network.multiple == 0
    assert len({batch for batch, *_ in shapes}) > 5


def test_pictures_of_a_stream_are_single() -> None:
    shapes = ANY_SIZE["yolov8n"].pictures(200, 13)
    assert len(shapes) == 200
    assert {batch for batch, *_ in shapes} == {1}


def test_unknown_networks_are_refused() -> None:
    with pytest.raises(SystemExit):
        chosen_networks(ArgumentParser(), "resnet18,nosuch")


def test_errors_are_relative_to_rows_of_the_same_unit() -> None:
    truth = np.concatenate([np.full((1, 4, 9), 600.0), np.full((1, 80, 9), 0.5)], axis=1)
    found = truth + 0.05
    assert AnySize("boxes", rows_apart=4).error(found, truth) == pytest.approx(0.1)
    assert AnySize("flat").error(found, truth) == pytest.approx(0.05 / 600)
    assert AnySize("flat").error(found[:, :5], truth) == float("inf")
    assert AnySize("flat").error(truth * np.nan, truth) == float("inf")


def test_a_sample_keeps_the_leading_axes() -> None:
    x = np.arange(2 * 3 * 100).reshape(2, 3, 100)
    assert np.array_equal(sample(x), x)
    assert np.array_equal(sample(x, 60), x[..., ::10])


def test_a_line_of_new_sizes() -> None:
    cost = Cost("net", 1, "cenote", 3, growth=[6.0, 9.0, 1.0], mapped=[40.0] * 3, compiled=2, error=1e-3)
    # A disturbed run in each round.
    for first in (
        (0.011, 0.012, 0.013),
        (0.011, 0.5, 0.013),
        (0.1, 0.012, 0.010),
    ):
        cost.first += first
        cost.steady += [0.01] * 3
        cost.back += [0.0105] * 3
        cost.work_beyond += [0.001] * 3
    assert cost.each == 2.0
    figures = ["2.00", "2.90", "0.50", "0.50", "1.00", "1.00", "10", "2.00", "40", "2", "1.0e-03*", "0.0"]
    assert cost_row(cost) == ["net T=1", "cenote", *figures]
    assert cost_row(Cost("net", 1, "peer", 3, failure="no"))[2:] == ["-"] * 12


def test_a_new_size_is_measured_and_what_follows_it() -> None:
    process = EngineProcess(DOUBLER, 1)
    try:
        process.call("start", DOUBLER, 1)
        process.call("load", None, 1)
        process.call("first", np.ones((1, 3), np.float32))
        seen = process.call("new_size", np.full((2, 3), 2, np.float32), 0.0)
        assert len(seen["times"]) == 3
        assert seen["first"] > 0
        assert seen["back"] > 0
        assert np.array_equal(seen["outputs"][0], np.full((2, 3), 4))
        assert process.call("compiled") == 0
        assert 0 < sum(process.call("memory")) <= process.call("peak_memory")
    finally:
        process.close()


def test_a_stream_runs_every_shape_once() -> None:
    shapes = [(1, 3, 4), (2, 5), (7,)]
    run = once(DOUBLER, PEER, None, shapes, 1, "", stream)
    assert not run.failure
    assert [answer[0].shape for answer in run.answers] == shapes
    assert len(run.passes) == 1
    noise = np.concatenate([answer[0].ravel() for answer in run.answers])
    assert prod((2, 5)) + 12 + 7 == noise.size
    assert np.ptp(noise) > 0


def test_a_stream_that_fails_is_told() -> None:
    spec = EngineSpec("refuses", "tests.bench.fake_engines", "Refuses")
    run = once(spec, PEER, None, [(1, 3)], 1, "", stream)
    assert "not today" in run.failure


def test_a_line_of_streams() -> None:
    runs = [Run(PEER, 0.5, [1.5, 1.0]), Run(COLD, 2.0, [4.0, 1.0], compiled=9), Run(WARM, 0.1, [0.9, 0.5])]
    cells = stream_row(Line("pages", 2, 12, runs, "100.0%"))
    assert cells == [
        "pages T=2", "12", "2.00", "6.00 (2.00)", "3.00", "9", "1.00 (0.10)", "0.50", "0",
        "0.50 / 1.00 = 0.50", "100.0%", "-",
    ]  # fmt: skip
    lost = stream_row(Line("net", 1, 3, [runs[0], Run(COLD, failure="no")]))
    assert lost[3] == "nan (nan)"


def test_letters_that_two_readings_share() -> None:
    def page(*texts: str) -> list[list[object]]:
        return [[None, text, 0.9] for text in texts]

    assert equal_letters([page("ab", "cd")], [page("ab", "cd")]) == 1.0
    assert equal_letters([page("abcd")], [page("abce")]) == 0.75


def test_pages_are_the_same_every_time_and_of_different_sizes() -> None:
    pytest.importorskip("skimage")
    from bench.pages import pages

    made, again = pages(6), pages(6)
    assert all(np.array_equal(one, other) for one, other in zip(made, again, strict=True))
    assert len({page.shape for page in made}) == 6
    assert all(page.dtype == np.uint8 and page.shape[2] == 3 and np.ptp(page) > 100 for page in made)
