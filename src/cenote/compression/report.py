"""Results of `cenote.compress`, as data and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.text import aligned, digits


@dataclass(frozen=True)
class LayerChange:
    """Trial of a treatment of a layer, or of all `layers` that are small, beside what was kept before.

    `bytes_before` and `bytes_after` of the model's file; `error` of the outputs of the whole model, as far as it was
    run; `ms_before` and `ms_after` of a call, None where it was not measured; `kept`, or the reason why not (`why`).
    """

    layer: str
    treatment: str
    bytes_before: int
    bytes_after: int
    error: float | None = None
    ms_before: float | None = None
    ms_after: float | None = None
    kept: bool = False
    why: str = ""


@dataclass(frozen=True)
class ModelSize:
    """Bytes of the file, bytes of constants in memory, and milliseconds of a call."""

    file_bytes: int
    memory_bytes: int
    ms: float


@dataclass(frozen=True)
class Compression:
    """The result of `compress`: the model `before` and `after`, its largest `error`, and every trial (`changes`).
    `calibrated`: whether inputs were given, or the error is that of random numbers."""

    out: str
    within: float
    error: float
    before: ModelSize
    after: ModelSize
    changes: tuple[LayerChange, ...]
    calibrated: bool

    @property
    def kept(self) -> tuple[LayerChange, ...]:
        """The changes that are in the file."""
        return tuple(each for each in self.changes if each.kept)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(found: Compression) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("layer", "treatment", "KB before", "after", "error", "ms before", "after", "")
    ]
    rows += [_row(each) for each in found.changes]
    lines = aligned(rows, (0, 1, len(rows[0]) - 1)) if found.changes else []
    before, after = found.before, found.after
    lines.append(
        f"file {_mb(before.file_bytes)} to {_mb(after.file_bytes)}, constants in memory "
        f"{_mb(before.memory_bytes)} to {_mb(after.memory_bytes)}, {digits(before.ms)} ms to {digits(after.ms)} ms"
    )
    of = "" if found.calibrated else " of random inputs: give real ones"
    lines.append(f"error {found.error:.1e} within {found.within:.1e}{of}")
    return lines


def _row(change: LayerChange) -> tuple[str, ...]:
    return (
        change.layer,
        change.treatment,
        f"{change.bytes_before / 1e3:.0f}",
        f"{change.bytes_after / 1e3:.0f}",
        "" if change.error is None else f"{change.error:.1e}",
        "" if change.ms_before is None else f"{digits(change.ms_before)}",
        "" if change.ms_after is None else f"{digits(change.ms_after)}",
        "kept" if change.kept else change.why,
    )


def _mb(nbytes: int) -> str:
    return f"{digits(nbytes / 1e6)} MB"
