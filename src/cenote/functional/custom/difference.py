"""Difference of a kernel's result from its reference, in words."""

from __future__ import annotations

import numpy as np

from cenote.core.types import Array, is_float

_SHOWN = 9  # significant digits


def difference(got: Array, want: Array, tolerance: float) -> str:
    """Return where two arrays differ most and by how much; "" where they agree. `tolerance` is relative to the largest
    finite element of `want`, 0 for equal values; NaN and infinities must be at the same places."""
    if not want.size or got.tobytes() == want.tobytes():
        return ""
    exact = not is_float(want.dtype)
    a, b = (x if exact and not tolerance else x.astype(np.float64) for x in (got, want))
    with np.errstate(all="ignore"):
        odd = (np.isnan(a) != np.isnan(b)) | (
            (np.isinf(a) | np.isinf(b)) & (a != b) & ~(np.isnan(a) & np.isnan(b))
        )
        apart = np.where(odd | ~(np.isfinite(a) & np.isfinite(b)), 0.0, np.abs(a.astype(np.float64) - b))
        finite = np.abs(b[np.isfinite(b)].astype(np.float64))
        limit = tolerance * float(finite.max(initial=0.0))
        wrong = odd | (apart > limit) if tolerance else odd | ((a != b) & ~(np.isnan(a) & np.isnan(b)))
    if not wrong.any():
        return ""
    worst = int(np.argmax(odd)) if odd.any() else int(np.argmax(np.where(wrong, apart, -1.0)))
    place = [int(each) for each in np.unravel_index(worst, want.shape)]
    seen, wanted = (np.asarray(x).reshape(-1)[worst] for x in (got, want))
    return (
        f"at {place} it gives {_text(seen)} instead of {_text(wanted)}; {int(wrong.sum())} of {want.size} elements "
        f"differ by more than {limit:.3g}"
    )


def _text(value: np.generic) -> str:
    return f"{float(value):.{_SHOWN}g}" if is_float(value.dtype) else str(value)
