"""The zoo's list, the record of its results, and its page."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from bench.classes import sizes_of
from bench.engines.base import Arrays
from bench.files import ModelFiles
from bench.rounds import Outcome
from bench.verdict import Row
from bench.zoo import checks, results
from bench.zoo.architectures import ARCHITECTURES
from bench.zoo.checks import Check, difference
from bench.zoo.page import page

MACHINE = {
    "processor": "p", "cores": 2, "isa": ["avx2"], "caches": {}, "memory_gib": 1, "hypervisor": False, "system": "s",
    "python": "3", "numpy": "2",
}  # fmt: skip


def test_there_are_120_architectures() -> None:
    assert len(ARCHITECTURES) == 120


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_open_sizes_are_within_what_an_architecture_takes(name: str) -> None:
    one = ARCHITECTURES[name]
    for shape in [one.traced_at, *sizes_of(one, 5, seed=1)]:
        closed = [axis for axis in range(1, len(shape)) if axis not in one.open_axes]
        assert [shape[axis] for axis in closed] == [one.shape[axis] for axis in closed]
        assert all(shape[axis] % one.multiple == 0 for axis in one.open_axes)
        assert all(shape[axis] >= one.sides[0] for axis in one.open_axes)
    assert one.any_batch == (len({shape[0] for shape in sizes_of(one, 5, seed=1)}) > 1)


def test_a_difference_is_infinite_where_no_answer_can_be_right() -> None:
    one = np.ones((2, 3), np.float32)
    assert difference((one,), (one + 1,)) == 0.5
    assert difference((one,), (one[:1],)) == np.inf
    assert difference((one * np.nan,), (one,)) == np.inf


@pytest.mark.parametrize(("second", "right"), [(1.0, True), (1.0000001, False)])
def test_other_bits_on_two_threads_are_not_right(
    second: float, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ARCHITECTURES["own-dcgan"]
    np.savez(ModelFiles(one.name, tmp_path).arrays, x=np.zeros(one.shape, np.float32), y64=np.ones(4))

    def answers(ours: bool, files: ModelFiles, inputs: list[np.ndarray], threads: int) -> list[Arrays]:
        return [(np.full(4, second if threads == 2 else 1.0, np.float32),)]

    monkeypatch.setattr(checks, "answers", answers)
    monkeypatch.setattr(checks, "planned", lambda *given: None)
    found = checks.check_fixed(one, tmp_path)
    assert found.error == 0
    assert found.is_right(1e-4) == right


@pytest.mark.parametrize(
    ("off", "written", "right"), [(1e-5, False, True), (1e-3, False, False), (1e-3, True, True)]
)
def test_float64_decides_where_the_engines_differ(
    off: float, written: bool, right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ARCHITECTURES["own-dcgan"]
    exact = np.ones(4)
    if written:
        answers_of = {f"y64_{index}": exact for index in range(checks.SIZES)}
        np.savez(ModelFiles(f"{one.name}.any", tmp_path).arrays, tolerance=5e-4, **answers_of)

    def answers(ours: bool, files: ModelFiles, inputs: list[np.ndarray], threads: int) -> list[Arrays]:
        return [(exact.astype(np.float32) + (2e-4 if ours else 2e-4 + off),) for _ in inputs]

    monkeypatch.setattr(checks, "answers", answers)
    monkeypatch.setattr(checks, "planned", lambda *given: None)
    found = checks.check_open(one, tmp_path, 1e-4)
    assert found.is_right(1e-4) == right
    assert found.tolerance == (5e-4 if written else None)
    if written:
        assert found.error == pytest.approx(2e-4, rel=1e-2)
        assert found.peer == pytest.approx(1.2e-3, rel=1e-2)


def found_of(ours: float, peer: float, error: float) -> results.Found:
    outcomes = [
        Outcome("cenote", "1", error=1e-6, fastest=ours, median=ours, round_medians=[ours, ours]),
        Outcome("onnxruntime", "1", error=error, fastest=peer, median=peer, round_medians=[peer, peer]),
        Outcome("litert", failure="UnavailableError: no file"),
    ]
    fixed = Outcome("cenote_fixed", "1", error=1e-6, fastest=ours / 1.25, median=ours, round_medians=[ours])
    return results.Found(
        "own-dcgan",
        fixed=Check(1e-6, 1e-6, host_steps={"NonZero": 1}),
        open=Check(float("inf"), classes=2),
        rows=[Row("own-dcgan", 1, outcomes, 10**9)],
        open_rows=[Row("own-dcgan", 1, [*outcomes, fixed], 10**9)],
    )


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    found = found_of(1e-3, 2e-3, 1e-6)
    results.write(tmp_path, found)
    back = results.read(tmp_path, found.name)
    assert back.rows == found.rows
    assert back.timed(1, opened=True) == found.open_rows[0]
    assert back.fixed == found.fixed
    assert back.open is not None
    assert not back.open.is_right(1e-4)
    assert results.read(tmp_path, "own-wavenet") == results.Found("own-wavenet")


def test_new_times_replace_those_of_as_many_threads_of_the_same_file() -> None:
    found = found_of(1e-3, 2e-3, 1e-6)
    again = Row("own-dcgan", 1, [])
    found.add(again, opened=True)
    found.add(Row("own-dcgan", 2, []), opened=True)
    assert found.timed(1, opened=True) is again
    assert [row.threads for row in found.open_rows] == [1, 2]
    assert [row.threads for row in found.rows] == [1]


def test_files_of_open_sizes_are_those_of_the_same_network(tmp_path: Path) -> None:
    files = ModelFiles("unet", tmp_path)
    assert files.of_open_sizes.onnx == tmp_path / "unet.any.onnx"
    assert files.of_open_sizes.of_fixed_size == files == files.of_fixed_size


def test_the_page_counts_right_answers_and_marks_wrong_ones() -> None:
    text = page([found_of(1e-3, 2e-3, 1e-6)], MACHINE)
    assert "right at the timed size: 1 of 1" in text
    assert "right at 5 open sizes: 0 of 1" in text
    assert "over onnxruntime **2**" in text
    assert "| own-dcgan | 1 | 1 | 2.00 | - |" in text
    assert "1 NonZero" in text
    assert (
        "1 networks: geometric mean over onnxruntime **2**, lowest 2; over the files of fixed size 1.25"
        in text
    )
    assert "| 2 | 1.25 | 2.00 | 1 NonZero |" in text
    assert "litert was timed on 0 of the networks" in text
    assert "onnxruntime was timed" not in text
    wrong = page([found_of(1e-3, 2e-3, 1.0)], MACHINE)
    assert "| own-dcgan | 1 | 1 | 2.00* | - |" in wrong
    assert "geometric mean" not in wrong
