"""The page of a model's graph: its edges against those of the file, its layout by what holds of every drawing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import cenote
from cenote.cli.app import app
from cenote.compiler.report import PlanDescription
from cenote.profile import graph_page
from cenote.profile.graph_layout import BOX_WIDTH, GAP, LINE_WIDTH, Drawing, laid_out
from tests.onnx_texts import noise, parsed
from tests.read_page import Read

BRANCHES = """
    branches (float[1,8,16,16] x, float[1,8,16,16] other) => (float[1,24,16,16] y, float[1,8,1,1] z) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w)
        b = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(a)
        c = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(a)
        d = Sub(a, other)
        j = Concat<axis=1>(b, c, d)
        y = Softmax<axis=1>(j)
        z = GlobalAveragePool(d)
    }
"""


def branches() -> onnx.ModelProto:
    return parsed(BRANCHES, w=noise(8, 8, 3, 3))


def inputs() -> dict[str, Any]:
    return {"x": noise(1, 8, 16, 16), "other": noise(1, 8, 16, 16)}


def test_steps_read_what_their_nodes_read() -> None:
    """Through steps that only change layouts, and through a Concat that has no step of its own."""
    plan = cenote.load(branches()).plan.describe()
    values = {"a", "b", "c", "d", "y", "z"}

    def made(number: int) -> str:
        return plan.inputs[-1 - number] if number < 0 else plan.steps[number].output

    def value(number: int) -> str:
        return made(number).lstrip("%").partition(":")[0]

    def sources(numbers: tuple[int, ...], own: str) -> set[str]:
        found: set[str] = set()
        for number in numbers:
            name = value(number)
            inside = number >= 0 and (name not in values or name == own)
            found |= sources(plan.steps[number].reads, own) if inside else {name}
        return found

    read = {
        value(number): sources(step.reads, value(number))
        for number, step in enumerate(plan.steps)
        if step.kind in ("kernel", "host")
    }
    expected = {"a": {"x"}, "b": {"a"}, "c": {"a"}, "d": {"a", "other"}, "y": {"b", "c", "d"}, "z": {"d"}}
    assert {name: read[name] for name in expected} == expected
    assert [sources(makers, "") for makers in plan.made_by] == [{"y"}, {"z"}]


def test_every_step_of_a_network_reads_from_a_step_before_it() -> None:
    model = cenote.load((Path(cenote.__file__).parent / "data/fashion.onnx").read_bytes())
    plan = model.plan_for({model.inputs[0].name: (1, 1, 28, 28)}).describe()
    for number, step in enumerate(plan.steps):
        assert all(-1 <= source < number for source in step.reads)
        assert step.reads or step.kind not in ("kernel", "host")
    assert PlanDescription.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


def test_the_page_is_sound_and_shows_every_step() -> None:
    model = cenote.load(branches())
    profile = model.profile(inputs(), seconds=0.02)
    page = model.graph_html(profile)
    read = Read(page)
    steps = [step for step in model.plan.describe().steps if step.kind in ("kernel", "host")]
    assert len(read.marks) == len(steps)
    assert read.links == read.marks
    assert {"%x", "%other", "%y", "%z"} <= set(read.texts)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    for step in steps:
        assert read.texts.count(step.node) >= 2  # the box and the row


def test_without_a_profile_there_are_no_times() -> None:
    page = cenote.load(branches()).graph_html()
    assert " ms" not in page
    assert "µs" not in page
    Read(page)


def test_names_of_a_file_cannot_write_html() -> None:
    proto = branches()
    proto.graph.node[0].name = "<script>alert(1)</script>"
    assert "<script>" not in cenote.load(proto).graph_html()


def test_a_graph_too_large_to_draw_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_page, "_MOST_BOXES", 3)
    page = cenote.load(branches()).graph_html()
    assert "too many to draw" in page
    assert "<svg" not in page
    assert "max_pool(" in page


def test_before_the_first_run_of_open_sizes_there_is_nothing_to_draw() -> None:
    text = BRANCHES.replace("[1,8,16,16] x", "[n,8,16,16] x").replace("[1,24,16,16]", "[n,24,16,16]")
    model = cenote.load(parsed(text.replace("[1,8,1,1]", "[n,8,1,1]"), w=noise(8, 8, 3, 3)))
    with pytest.raises(cenote.ArgumentError, match="call plan_for"):
        model.graph_html()
    model.run(inputs())
    assert "<svg" in model.graph_html()


def test_the_command_writes_it(tmp_path: Path) -> None:
    onnx.save(branches(), tmp_path / "net.onnx")
    done = CliRunner().invoke(
        app, ["inspect", str(tmp_path / "net.onnx"), "--html", str(tmp_path / "page.html")]
    )
    assert done.exit_code == 0, done.output
    assert "net: its graph" in Read((tmp_path / "page.html").read_text(encoding="utf-8")).texts


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(1, 30))
    return [
        sorted(draw(st.sets(st.integers(max(0, number - 8), number - 1), max_size=4))) if number else []
        for number in range(count)
    ]


def check(layout: Drawing, reads: list[list[int]]) -> None:
    rows: dict[int, list[tuple[float, int]]] = {}
    for place in layout.boxes:
        rows.setdefault(place.row, []).append((place.x, place.width))
        assert place.width / 2 <= place.x + 1e-6
        assert place.x <= layout.width - place.width / 2 + 1e-6
    for line in layout.lines:
        for upper, lower in pairwise(line):
            assert lower.row == upper.row + 1
        for place in line[1:-1]:
            rows[place.row].append((place.x, place.width))
    for row in rows.values():
        row.sort()
        for (left, width), (right, other) in pairwise(row):
            assert right - left >= (width + other) / 2 + GAP - 1e-6
    assert {(line[0].box, line[-1].box) for line in layout.lines} == {
        (source, number) for number, sources in enumerate(reads) for source in sources
    }


@given(graphs())
def test_boxes_never_overlap_and_every_edge_is_a_line_downwards(reads: list[list[int]]) -> None:
    check(laid_out(reads), reads)


def test_a_chain_with_a_residual_stays_straight() -> None:
    layout = laid_out([[], [0], [1], [2], [0, 3], [4], [5], [4, 6]])
    middles = [place.x for place in layout.boxes]
    np.testing.assert_allclose(middles, middles[0], atol=BOX_WIDTH / 20)
    assert layout.width < BOX_WIDTH + 2 * (GAP + LINE_WIDTH)


def test_nothing_has_no_size() -> None:
    assert laid_out([]).width == 0.0
