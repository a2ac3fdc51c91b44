"""Page of the figures of `bench.anywhere.browser`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
PEERS = ("onnxruntime_web", "litert_js")
NAMES = {
    "cenote": "Cenote",
    "cenote_plain": "Cenote, no relaxed SIMD",
    "cenote_2": "Cenote, 2 threads",
    "onnxruntime_web": "onnxruntime-web",
    "onnxruntime_web_2": "onnxruntime-web, 2 threads",
    "litert_js": "LiteRT.js",
}


def page(rows: Sequence[Row], machine: dict[str, Any], rounds: int) -> str:
    """Return the page's text."""
    engines = [name for name in NAMES if any(name in row["engines"] for row in rows)]
    agent = next((row["agent"] for row in rows if row["agent"]), "")
    browser = next(
        (word for word in agent.split() if word.startswith(("HeadlessChrome/", "Chrome/"))), "a browser"
    )
    described = (
        f"{machine['processor']}, {machine['cores']} cores"
        if "cores" in machine
        else str(machine.get("processor", ""))
    )
    return "\n".join(
        [
            "# In the browser, beside other engines",
            "",
            f"Made by `python -m bench.anywhere.browser --rounds {rounds}` in {browser}; {described}.",
            "All engines take turns in one page; batch 1, float32, one thread unless it says otherwise. Medians.",
            "",
            *_verdicts(rows),
            "",
            "## A run, ms",
            "",
            *_table(
                ["network", *[NAMES[name] for name in engines], "fastest peer / Cenote"],
                _times(rows, engines),
            ),
            "",
            "## Ready: from the call that loads to the first answer, ms, files from the same machine",
            "",
            *_table(["network", *[NAMES[name] for name in engines]], _ready(rows, engines)),
            "",
            "## Sizes, KB, and the largest error of the largest output",
            "",
            *_table(["network", "code", "with relaxed SIMD", "JavaScript", "weights", "error"], _sizes(rows)),
            "",
        ]
    )


def _verdicts(rows: Sequence[Row]) -> list[str]:
    ratios = {row["name"]: ratio for row in rows if (ratio := _ratio(row)) is not None}
    if not ratios:
        return ["No peer ran."]
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    least = min(ratios, key=lambda name: ratios[name])
    lines = [
        f"- The fastest peer takes **{mean:.2f}** times as long as Cenote by geometric mean over {len(ratios)} "
        f"networks, the least {ratios[least]:.2f} ({least})."
    ]
    earlier = [name for name in ratios if _is_ready_first(next(row for row in rows if row["name"] == name))]
    lines.append(f"- Ready no later than the earliest peer on {len(earlier)} of {len(ratios)}.")
    gains = {row["name"]: gain for row in rows if (gain := _gain(row)) is not None}
    if gains:
        lines.append(
            f"- Two threads: {', '.join(f'{name} {gain:.2f}' for name, gain in gains.items())} times one."
        )
    return lines


def _of(row: Row, engine: str, what: str) -> float | None:
    value: float | None = row["engines"].get(engine, {}).get(what)
    return value


def _ratio(row: Row) -> float | None:
    own = _of(row, "cenote", "median")
    peers = [time for name in PEERS if (time := _of(row, name, "median")) is not None]
    return min(peers) / own if own and peers else None


def _is_ready_first(row: Row) -> bool:
    own = _of(row, "cenote", "ready")
    peers = [time for name in PEERS if (time := _of(row, name, "ready")) is not None]
    return own is not None and own <= min(peers, default=0.0)


def _gain(row: Row) -> float | None:
    one, two = _of(row, "cenote", "median"), _of(row, "cenote_2", "median")
    return one / two if one and two else None


def _times(rows: Sequence[Row], engines: Sequence[str]) -> Iterable[list[str]]:
    for row in rows:
        yield [row["name"], *[_number(_of(row, name, "median")) for name in engines], _number(_ratio(row))]


def _ready(rows: Sequence[Row], engines: Sequence[str]) -> Iterable[list[str]]:
    for row in rows:
        yield [row["name"], *[_number(_of(row, name, "ready")) for name in engines]]


def _sizes(rows: Sequence[Row]) -> Iterable[list[str]]:
    for row in rows:
        sizes, error = row["sizes"], _of(row, "cenote", "error")
        kilobytes = [f"{sizes[name] / 1000:,.1f}" for name in ("code", "relaxed", "script", "weights")]
        yield [row["name"], *kilobytes, "" if error is None else f"{error:.1e}"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    return [*lines, *[f"| {' | '.join(row)} |" for row in rows]]
