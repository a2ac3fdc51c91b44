"""The page of the zoo: right answers, times and ratios of every network, and those that come off worst."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.machine import describe_markdown
from bench.report import failures, milliseconds, table, versions
from bench.verdict import OURS, Row, geometric_mean
from bench.zoo.checks import SIZES, Check
from bench.zoo.results import Found

LOWEST = 10
PEER = "onnxruntime"
FIXED = "cenote_fixed"

_ABOUT = f"""\
Architectures of torchvision, timm, segmentation-models-pytorch, pytorchcv, monai, spandrel, transformers and diffusers,
and a few after their papers (`bench/zoo/architectures.py`): classifiers, segmentation, detection, poses,
super-resolution, generators, diffusion, films and volumes, sound and series. Weights are seeded, none trained; batch
norms have the statistics of seeded batches. Batch 1, float32. `python -m bench.zoo` makes the page.

Right: at the timed size within the tolerance of the network in float64, with the same bits on one thread and two; with
batch and sizes open, loaded once and run at {SIZES} sizes, within the tolerance of ONNX Runtime, or, where the two
differ by more, within the tolerance of float64 at these sizes. The tolerance is 1e-4 of the largest value, or eight
times PyTorch's own error in float32 where untrained weights amplify rounding beyond that."""
_TIMES = """\
Engines run in turns, each in a process of its own. Ratios are of median times, the peer's over Cenote's: above 1,
Cenote is faster. Star: the peer's answer is not right, so that its ratio counts nowhere. `-`: it does not run there, or
was not timed."""

_OPEN_TIMES = f"""\
Open over fixed: the time of the file of open sizes, at the timed size, over that of the file of fixed size, on one
thread; then {PEER}'s time with the file of open sizes over Cenote's. `-`: that file has another answer at this size."""


def page(everything: Sequence[Found], machine: dict[str, Any]) -> str:
    """The whole page, of the networks that were checked or timed."""
    known = [found for found in everything if found.fixed or found.rows]
    rows = [row for found in known for row in found.rows]
    opened = [row for found in known for row in found.open_rows]
    parts = [
        f"# {len(known)} architectures, beside other engines",
        _ABOUT,
        "\n".join((*verdicts(known, rows), *open_verdicts(opened))),
        f"## The lowest {LOWEST}\n\n{lowest(rows)}",
        f"## Times\n\n{_TIMES}\n\n{times(known)}",
        f"## Answers, and times of open sizes\n\n{_OPEN_TIMES}\n\n{_answers(known)}",
        f"## Could not run\n\n{failures([*rows, *opened])}\n## Versions\n\n{versions(rows)}",
        f"## Machine\n\n{describe_markdown(machine)}",
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def verdicts(known: Sequence[Found], rows: Sequence[Row]) -> Iterator[str]:
    """How many are right, and geometric means for each count of threads."""
    fixed = [found for found in known if found.fixed]
    opened = [found for found in known if found.open]
    right = sum(is_right(found.fixed, found.tolerance) for found in fixed)
    yield f"- right at the timed size: {right} of {len(fixed)}"
    right = sum(is_right(found.open, found.tolerance) for found in opened)
    yield f"- right at {SIZES} open sizes: {right} of {len(opened)}"
    for threads in sorted({row.threads for row in rows}):
        group = [row for row in rows if row.threads == threads]
        ratios = [ratio for row in group if (ratio := row.ratio()) is not None]
        alone = geometric_mean(ratio_to(row, PEER) for row in group)
        mean = geometric_mean(ratios)
        least = geometric_mean(row.ratio("fastest") for row in group)
        if mean is None or alone is None or least is None:
            continue
        ahead = sum(ratio >= 1 for ratio in ratios)
        yield (
            f"- {threads} thread(s), {len(ratios)} networks: geometric mean over {PEER} **{alone:.3g}**, over the "
            f"fastest peer **{mean:.3g}** ({least:.3g} of minima); at 1.0 or better {ahead} "
            f"({ahead / len(ratios):.0%}), lowest {min(ratios):.3g}"
        )
    for peer in _peers(rows):
        timed = {
            row.work for row in rows for each in row.outcomes if each.engine == peer and not each.failure
        }
        if len(timed) < len({row.work for row in rows}):
            yield f"- {peer} was timed on {len(timed)} of the networks"


def open_verdicts(rows: Sequence[Row]) -> Iterator[str]:
    """Geometric means of the files of open sizes, for each count of threads."""
    for threads in sorted({row.threads for row in rows}):
        group = [row for row in rows if row.threads == threads]
        over_fixed = [over for row in group if (over := open_over_fixed(row)) is not None]
        peers = [ratio for row in group if (ratio := ratio_to(row, PEER)) is not None]
        mean, over = geometric_mean(peers), geometric_mean(over_fixed)
        if mean is None or over is None:
            continue
        yield (
            f"- files of open sizes, {threads} thread(s), {len(over_fixed)} networks: geometric mean over {PEER} "
            f"**{mean:.3g}**, lowest {min(peers):.3g}; over the files of fixed size {over:.3g}, highest "
            f"{max(over_fixed):.3g}"
        )


def open_over_fixed(row: Row | None) -> float | None:
    """Cenote's time with the file of open sizes over that with the file of fixed size, where both are right: the least
    times, whose ratio hardly depends on what else ran."""
    opened, fixed = (row.outcome(OURS), row.outcome(FIXED)) if row else (None, None)
    if row is None or opened is None or fixed is None or not row.counts(opened) or not row.counts(fixed):
        return None
    return opened.fastest / fixed.fastest


def _peers(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(each.engine for row in rows for each in row.outcomes if each.engine != OURS))


def is_right(check: Check | None, tolerance: float) -> bool:
    """Whether a network was checked, and right."""
    return check is not None and check.is_right(tolerance)


def ratio_to(row: Row, engine: str) -> float | None:
    """A peer's median time over Cenote's, where both are right."""
    ours, peer = row.ours(), row.outcome(engine)
    if ours is None or peer is None or not row.counts(peer):
        return None
    return peer.median / ours.median


def lowest(rows: Sequence[Row]) -> str:
    """The networks with the lowest ratios to their fastest peer."""
    worst = sorted((row for row in rows if row.ratio() is not None), key=lambda row: row.ratio() or 0)
    cells = []
    for row in worst[:LOWEST]:
        ours, peer, limits = row.ours(), row.best_peer(), row.ratio_range()
        if ours is None or peer is None or limits is None:
            continue
        times_of = [milliseconds(each.median) for each in (ours, peer)]
        span = f"{limits[0]:.3g}-{limits[1]:.3g}"
        cells.append(
            [
                row.work,
                str(row.threads),
                times_of[0],
                f"{peer.engine} {times_of[1]}",
                f"{row.ratio():.3g}",
                span,
            ]
        )
    return table(["", "T", f"{OURS}, ms", "fastest peer, ms", "ratio", "over the rounds"], cells)


def times(known: Sequence[Found]) -> str:
    """A line per network: Cenote's time and each peer's ratio, for each count of threads."""
    rows = [row for found in known for row in found.rows]
    counts = sorted({row.threads for row in rows})
    peers = _peers(rows)
    header = ["", "GMAC"]
    for count in counts:
        header += [f"{OURS}, ms, T={count}", *peers]
    lines = []
    for found in known:
        if not found.rows:
            continue
        line = [found.name, f"{found.rows[0].multiply_adds / 1e9:.3g}"]
        for count in counts:
            line += _cells(found.timed(count), peers)
        lines.append(line)
    return table(header, lines)


def _cells(row: Row | None, peers: Sequence[str]) -> list[str]:
    """Cenote's time, and its peers' over it."""
    ours = row.outcome(OURS) if row else None
    if row is None or ours is None or ours.failure:
        return ["-"] * (1 + len(peers))
    cells = [milliseconds(ours.median) + ("" if row.counts(ours) else "*")]
    for name in peers:
        peer = row.outcome(name)
        if peer is None or peer.failure:
            cells.append("-")
        else:
            cells.append(f"{peer.median / ours.median:.2f}" + ("" if row.counts(peer) else "*"))
    return cells


def _answers(known: Sequence[Found]) -> str:
    """A line per network: errors, plans, steps in Python, and what is not right."""
    lines = []
    for found in known:
        if found.fixed is None:
            continue
        opened = found.open
        lines.append(
            [
                found.name,
                _error(found.fixed, found.tolerance, lambda check: check.error),
                _error(found.fixed, found.tolerance, lambda check: check.peer),
                _error(opened, opened.tolerance or found.tolerance, lambda check: check.error)
                if opened
                else "not exported",
                str(opened.classes) if opened else "-",
                *_open_times(found),
                _hosts(found),
                _told(found.fixed, opened or Check()),
            ]
        )
    compared = ["open over fixed", f"{PEER} over open"]
    header = ["", "error", f"{PEER}'s", "open sizes", "plans", *compared, "steps in Python", "remarks"]
    return table(header, lines)


def _open_times(found: Found) -> list[str]:
    row = found.timed(1, opened=True)
    ratios = open_over_fixed(row), ratio_to(row, PEER) if row else None
    return ["-" if ratio is None else f"{ratio:.2f}" for ratio in ratios]


def _error(check: Check, tolerance: float, error: Callable[[Check], float | None]) -> str:
    found = error(check)
    if found is None:
        return "-"
    return f"{found:.1e}" + ("" if found <= tolerance else "*")


def _hosts(found: Found) -> str:
    counts = {
        **(found.open.host_steps if found.open else {}),
        **(found.fixed.host_steps if found.fixed else {}),
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _told(*checks: Check) -> str:
    """Why answers are missing, or what is wrong with them."""
    remarks: list[str] = []
    for check in checks:
        remarks += [check.failure[:200], "" if check.same_bits else "other bits on two threads"]
        remarks.append(check.peer_failure and f"{PEER}: {check.peer_failure[:120]}")
    return "; ".join(dict.fromkeys(filter(None, remarks))) or "-"
