"""The page of models in 8 bits: times, errors, and what saturates, Cenote beside its peers."""

from collections.abc import Sequence
from typing import Any

from bench.machine import describe_markdown
from bench.quantized_files import FURTHER
from bench.report import failures, milliseconds, table, versions
from bench.rounds import Outcome
from bench.saturation import Saturation
from bench.verdict import OURS, Row, geometric_mean

_BITS = ".int8"
_TITLES = {"": "this CPU", "avx2": "AVX2, without VNNI"}
_WIDE = "avx512_vnni"


def page(
    rows: Sequence[Row], saturations: Sequence[Saturation], command: str, isa: str, machine: dict[str, Any]
) -> str:
    """Return the page. `rows`: of networks in float and, with `.int8` behind the name, in 8 bits."""
    bits = [row for row in rows if row.work.endswith(_BITS)]
    floats = {(row.work, row.threads): row for row in rows}
    kind = "AVX512-VNNI" if not isa and _WIDE in machine["isa"] else _TITLES[isa]
    parts = [
        f"# Models in 8 bits, {kind}, beside other engines",
        f"Made by `{command}`.\n{_ABOUT}",
        "\n".join(verdicts(bits, floats)),
        f"## Least latency, ms\n\n{_LATENCY}\n\n{times(bits, floats)}",
        f"## Errors\n\n{_ERRORS}\n\n{errors(bits)}",
        f"## Saturation\n\n{_SATURATION}\n\n{saturated(saturations)}",
        f"## Could not run\n\n{failures(rows)}\n## Versions\n\n{versions(rows)}",
        f"## Machine\n\n{describe_markdown(machine)}",
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


_ABOUT = """\
Batch 1; u8 activations and s8 weights per filter from ONNX Runtime's tool, one file for Cenote, ONNX Runtime and
OpenVINO; LiteRT has a file of its own, from ai-edge-quantizer (s8 and s8, the same calibration). smart_turn is
trained and comes quantised; the others have random weights. Engines run in turns, each in a process of its own.
Where the CPU has more than the page is about, Cenote generates for less, and the peers are told that there is less
(`bench/narrow.py`): times are at this CPU's clock and caches."""
_LATENCY = """\
**Bold**: the fastest. Star: further from the floats than 1.5 times what 8 bits cost by themselves. Ratio: time of
the fastest peer, its answer right or not, over Cenote's. Last: Cenote's time for the network in float32, over that
in 8 bits."""
_ERRORS = """\
Largest error / largest output, against the network in float64 (smart_turn: float32 without rounding activations).
"8 bits" is what the file itself costs, computed node by node with sums in floats; an engine adds to it what it
saturates. Random weights amplify both, and ties that round the other way."""
_SATURATION = """\
Quantised numbers of all layers that are more than one step from the plain ones, in millionths, and the most steps;
each layer is given the plain numbers of those before it (`bench/saturation.py`). Without VNNI, ONNX Runtime and
OpenVINO add pairs of products in 16 bits (VPMADDUBSW), which saturate beyond 32767; Cenote multiplies them in 16 bits
and adds in 32. LiteRT's file has other numbers; its answers have the same bits with and without VNNI."""


def verdicts(bits: Sequence[Row], floats: dict[tuple[str, int], Row]) -> list[str]:
    """Geometric means and least ratios, a line for each count of threads."""
    lines = []
    for threads in sorted({row.threads for row in bits}):
        group = [row for row in bits if row.threads == threads]
        ratios = {row.work.removesuffix(_BITS): row.ratio("fastest", wrong_too=True) for row in group}
        gains = {row.work.removesuffix(_BITS): gain(row, floats) for row in group}
        right = geometric_mean(row.ratio("fastest") for row in group)
        lines.append(
            f"- {threads} thread(s): the fastest peer takes **{number(geometric_mean(ratios.values()))}** times as "
            f"long as Cenote by geometric mean (least {least(ratios)}; {number(right)} over those whose answer is "
            f"right); Cenote in float32 {number(geometric_mean(gains.values()))} times (least {least(gains)})"
        )
    return lines


def gain(row: Row, floats: dict[tuple[str, int], Row]) -> float | None:
    """Return Cenote's time in float32 over that in 8 bits."""
    before = floats.get((row.work.removesuffix(_BITS), row.threads))
    ours, theirs = row.outcome(OURS), before and before.outcome(OURS)
    if ours is None or not theirs or ours.failure or theirs.failure:
        return None
    return theirs.fastest / ours.fastest


def number(value: float | None) -> str:
    """Three significant digits, or a dash."""
    return "-" if value is None else f"{value:.3g}"


def least(ratios: dict[str, float | None]) -> str:
    """The smallest, and of what."""
    known = {name: ratio for name, ratio in ratios.items() if ratio is not None}
    name = min(known, key=lambda each: known[each], default="")
    return f"{known[name]:.3g}, {name}" if name else "-"


def times(bits: Sequence[Row], floats: dict[tuple[str, int], Row]) -> str:
    """The table of latencies."""
    engines = [outcome.engine for outcome in bits[0].outcomes]
    lines = []
    for row in bits:
        fastest = min(o.fastest for o in row.outcomes)
        cells = [_time(row, outcome, fastest) for outcome in row.outcomes]
        ratio = number(row.ratio("fastest", wrong_too=True))
        lines.append(
            [row.work.removesuffix(_BITS), str(row.threads), *cells, ratio, number(gain(row, floats))]
        )
    return table(["", "T", *engines, "ratio", "over float32"], lines)


def _time(row: Row, outcome: Outcome, fastest: float) -> str:
    if outcome.failure:
        return "-"
    text = milliseconds(outcome.fastest) + ("" if row.counts(outcome) else "*")
    return f"**{text}**" if outcome.fastest == fastest else text


def errors(bits: Sequence[Row]) -> str:
    """The table of errors, of one thread: others give the same or nearly so."""
    first = [row for row in bits if row.threads == bits[0].threads]
    engines = [outcome.engine for outcome in first[0].outcomes]
    lines = [
        [
            row.work.removesuffix(_BITS),
            f"{row.tolerance / FURTHER:.3f}",
            *("-" if o.failure else f"{o.error:.3f}" for o in row.outcomes),
        ]
        for row in first
    ]
    return table(["", "8 bits", *engines], lines)


def saturated(found: Sequence[Saturation]) -> str:
    """The table of saturation."""
    columns = list(dict.fromkeys((each.engine, each.isa) for each in found))
    by_place = {(each.network, each.engine, each.isa): _share(each) for each in found}
    lines = [
        [network.removesuffix(_BITS), *(by_place.get((network, *column), "-") for column in columns)]
        for network in dict.fromkeys(each.network for each in found)
    ]
    return table(["", *(f"{engine}, {_TITLES[isa]}" for engine, isa in columns)], lines)


def _share(each: Saturation) -> str:
    return "-" if each.failure else f"{1e6 * each.off / each.numbers:.0f} ({each.steps})"
