"""A profile as text, page, notebook and trace."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from cenote.profile.data import Profile
from cenote.profile.fields import Span
from cenote.profile.pictures import joined
from tests.profile.samples import PROFILE, STEP

NASTY = '<script>alert("x")</script>&'


def wide(steps: int, spans: int) -> Profile:
    """A profile of many steps."""
    many = tuple(
        replace(
            STEP, index=i, node=f"node {i} {NASTY}", op=NASTY, ms=1.0 / (i + 1), bytes=100, operations=900
        )
        for i in range(steps)
    )
    timeline = tuple(Span(i % 2, i % steps, "kernel", i * 1.0, i + 0.5) for i in range(spans))
    return replace(PROFILE, steps=many, timeline=timeline)


def test_the_table_has_the_heaviest_steps_first() -> None:
    lines = wide(30, 4).table(5).splitlines()
    numbers = [int(line.split()[0]) for line in lines if re.match(r" *\d+  node", line.replace("…", " "))]
    assert numbers == [0, 1, 2, 3, 4]
    assert "and 25 more steps" in lines[-2] or "and 25 more steps" in "\n".join(lines)
    assert str(PROFILE) == PROFILE.table()


def test_calls_of_one_kernel_for_one_node_are_one_row() -> None:
    """As of the steps of a sequence, which alternate between two kernels here."""
    steps = tuple(
        replace(STEP, index=i, node="gru", kernel=f"phase{i % 2}", ms=1.0 + i % 2, share=0.01, operations=10)
        for i in range(40)
    )
    rows = [
        line for line in replace(PROFILE, steps=steps).table().splitlines() if re.match(r" *\d+  gru", line)
    ]
    assert [re.split("  +", row.strip())[:5] for row in rows] == [
        ["1", "gru", "direct x20", "40.000", "20.0%"],
        ["0", "gru", "direct x20", "20.000", "20.0%"],
    ]
    few = replace(PROFILE, steps=steps[:8]).table()
    assert len(re.findall("  gru  ", few)) == 8


def test_the_table_says_what_is_in_the_profile() -> None:
    text = PROFILE.table()
    said = (
        "2 thread(s)",
        "latency 2 ms",
        "kernels 1 ms",
        "conv1",
        "direct",
        "50% of fma",
        "imbalance",
        "a smaller grain",
    )
    for words in said:
        assert words in text, words


def test_disturbances_are_said() -> None:
    disturbed = replace(PROFILE.environment, foreign_cores=1.5, throttled_periods=3, clock_ghz=(3.0, 2.0))
    text = replace(PROFILE, environment=disturbed, wall_ms=1.0).table()
    for words in ("other processes kept 1.5 cores", "3 periods", "from 3.00 to 2.00 GHz", "off the latency"):
        assert words in text
    assert "cores busy" not in PROFILE.table()


def test_the_page_needs_nothing_else_and_stays_small() -> None:
    html = wide(1200, 20_000).html()
    assert len(html.encode()) < 1_000_000
    assert not re.search(r"(src|href)\s*=|url\(|@import|https?:", html), "it asks for something outside"
    assert "<script" not in html, "names are text"
    for title in (
        "Findings",
        "Roofline",
        "Threads",
        "Steps, heaviest first",
        "Memory over time",
        "Environment",
    ):
        assert title in html
    for svg in re.findall(r"<svg.*?</svg>", html, re.S):
        ElementTree.fromstring(svg)
    assert html.count("<svg") == 3


def test_the_page_fits_a_telephone_and_both_colour_schemes() -> None:
    html = wide(30, 40).html()
    assert 'name="viewport"' in html
    assert "color-scheme: light dark" in html
    assert html.count('class="scroll"') == 5, "pictures and tables scroll by themselves"
    assert "10 more steps" in html


def test_the_key_names_what_is_drawn() -> None:
    steps = (
        STEP,
        replace(STEP, index=1, kind="halo", algorithm="zero halo of conv1"),
        replace(STEP, index=2, kind="host"),
    )
    spans = tuple(Span(0, i, "kernel", i * 1.0, i + 1.0) for i in range(3))
    html = replace(PROFILE, steps=steps, timeline=spans).html()
    assert "</i>direct</span>" in html
    assert "</i>halo</span>" in html
    assert "</i>zero halo" not in html
    many = tuple(replace(STEP, index=i, algorithm=f"algorithm {i}") for i in range(12))
    assert "</i>others</span>" in replace(PROFILE, steps=many).html()


def test_the_roofline_has_effective_and_executed_points() -> None:
    step = replace(STEP, operations=1000, executed_operations=400, bytes=100)
    html = replace(PROFILE, steps=(step,)).html()
    assert html.count("<circle") == 2
    assert "executed" in html
    assert "effective" in html


@pytest.mark.parametrize(
    "profile", [replace(PROFILE, roofs=None), replace(PROFILE, timeline=(), arena=(), findings=())]
)
def test_what_is_not_there_is_left_out(profile: Profile) -> None:
    assert "nan" not in profile.html()
    assert profile.table()
    assert profile._repr_html_().startswith("<style>")


def test_unavailable_is_not_zero() -> None:
    row = re.search(r"<dt>foreign cores</dt><dd>(.*?)</dd>", PROFILE.html())
    assert row is not None
    assert row[1] == "unavailable"


def test_the_trace_is_what_perfetto_reads() -> None:
    events = json.loads(wide(3, 10).trace())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == 10
    assert {event["tid"] for event in spans} == {0, 1}
    assert all(event["dur"] == 0.5 and event["ts"] >= 0 for event in spans)
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert named == {0: "calling thread", 1: "worker 1"}


def test_neighbouring_spans_of_a_step_are_drawn_as_one() -> None:
    spans = [Span(0, 0, "kernel", float(i), i + 0.9) for i in range(5)] + [Span(0, 1, "kernel", 5.0, 7.0)]
    assert joined(spans, 10) == [Span(0, 0, "kernel", 0.0, 4.9), Span(0, 1, "kernel", 5.0, 7.0)]
    assert joined(spans, 1) == [Span(0, 0, "kernel", 0.0, 4.9)]
