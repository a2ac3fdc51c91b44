"""Geometry of pooling windows: the one place where output sizes, clipping and divisors are computed.

Along one axis, with E = (window - 1) * dilation + 1 elements under a window:

    explicit padding   out = floor((size + begin + end - E) / stride) + 1
    ... ceil_mode      out = ceil((size + begin + end - E) / stride) + 1, then the drop rule
    VALID              out = floor((size - E) / stride) + 1   (= ceil((size - E + 1) / stride)); no ceil_mode
    SAME               out = ceil(size / stride), padding max(0, (out - 1) * stride + E - size), split in two:
                       the odd element goes to the end (SAME_UPPER, TensorFlow) or the start (SAME_LOWER)

Everything is done in Python integers with floor division: no size is too large, and a window larger than its input
gives an error, not the output of 1 that division towards zero gives in C. Tables with an entry per window are made
here too, for a number of windows that `limits.positions` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cenote.core import limits
from cenote.core.computed import ComputedArray, computed
from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.formulas.certain import always_at_most
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.types import Array

Pairs = tuple[tuple[int, int], ...]

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")

DROP_RULES = ("always", "padded", "never")
"""Rules for a last window, with ceil_mode, that starts at or past the end of the input: drop it (PyTorch, ONNX), drop
it only if there is padding (Caffe), or keep it (TensorRT). A kept window without any element is refused when it is
run.
"""


@dataclass(frozen=True)
class AxisWindow:
    """Windows along one axis. Positions are those of the input without its padding: 0 to size - 1.

    `size` elements are read by `out` windows; window `o` starts at `start(o)`, which is negative in the padding, and
    has `window` taps, `dilation` apart. `begin` and `end` are the resolved padding.
    """

    size: int
    window: int
    stride: int = 1
    dilation: int = 1
    begin: int = 0
    end: int = 0
    out: int = 0

    @property
    def reach(self) -> int:
        """Number of elements from the first to the last tap, both included."""
        return (self.window - 1) * self.dilation + 1

    def start(self, o: int) -> int:
        """Position of the first tap of window `o`; negative in the padding."""
        return o * self.stride - self.begin

    def _taps_below(self, o: int, limit: int) -> int:
        """Number of taps of window `o`, from its first on, that lie before `limit`."""
        return minimum(self.window, maximum(0, -((self.start(o) - limit) // self.dilation)))

    def taps(self, o: int) -> tuple[int, int]:
        """Half-open range of the taps of window `o` that fall on real elements: tap t is at start + t * dilation."""
        first = self._taps_below(o, 0)
        return first, max(first, self._taps_below(o, self.size))

    def count(self, o: int) -> int:
        """Number of taps on real elements: the divisor that excludes padding."""
        first, stop = self.taps(o)
        return stop - first

    def padded_count(self, o: int) -> int:
        """Number of taps on real elements or on the declared padding, not on the padding that ceil_mode adds beyond
        it."""
        return self._taps_below(o, self.size + self.end)

    def positions(self, o: int) -> slice:
        """Real elements of window `o`, as a slice of the axis."""
        first, stop = self.taps(o)
        low = self.start(o) + first * self.dilation
        return slice(
            low, low + (stop - first - 1) * self.dilation + 1 if stop > first else low, self.dilation
        )

    def read(self, first: int, stop: int) -> tuple[int, int]:
        """Return the half-open input range that windows first..stop-1 touch, clipped to the input."""
        if stop <= first:
            low = min(max(self.start(first), 0), self.size)
            return low, low
        low = min(max(self.start(first), 0), self.size)
        high = min(max(self.start(stop - 1) + self.reach, low), self.size)
        return low, high

    def part(self, first: int, stop: int) -> AxisWindow:
        """Return windows first..stop-1 alone, over the range that `read` gives: with padding as far as they reach
        into it, never beyond the declared padding, so that counts and padded counts stay the same."""
        low, high = self.read(first, stop)
        last = self.start(stop - 1) + self.reach
        end = max(0, min(last, self.size + self.end) - high)
        begin = max(0, low - self.start(first))
        return AxisWindow(high - low, self.window, self.stride, self.dilation, begin, end, stop - first)

    @property
    def interior(self) -> tuple[int, int]:
        """Half-open range of the windows that lie wholly on real elements."""
        first = min(self.out, -(-self.begin // self.stride))
        stop = (self.size + self.begin - self.reach) // self.stride + 1
        return first, max(first, min(self.out, stop))

    @property
    def empty_window(self) -> int | None:
        """First window without any real element, or None.

        A window that starts in the input holds that element; one that starts before it holds the first tap from 0 on,
        if that is below `size`: always when the dilation is not larger than the size. Otherwise the places of that
        tap, a sequence modulo the dilation, leave the input within `size` windows or never.
        """
        if self.out and not self.count(0):
            return 0
        if self.dilation > self.size:
            before = min(self.out, -(-self.begin // self.stride), self.size + 1)
            for o in limits.positions("windows that start in the padding", before):
                if not self.count(o):
                    return o
        past = -(-(self.size + self.begin) // self.stride)
        return past if past < self.out else None

    def counts(self) -> Sequence[int]:
        """Return the `count` of each window."""
        if not self._is_sized:
            return self._table(self.count)
        if always_at_most(self.begin, 0) and self._ends_by(self.size):
            return computed(repeated, self.window, self.out)
        return computed(window_counts, *self._numbers, False)

    def padded_counts(self) -> Sequence[int]:
        """Return the `padded_count` of each window."""
        if not self._is_sized:
            return self._table(self.padded_count)
        if self._ends_by(self.size + self.end):
            return computed(repeated, self.window, self.out)
        return computed(window_counts, *self._numbers, True)

    def _ends_by(self, limit: int) -> bool:
        """Whether the last window ends before this position, at all sizes."""
        return always_at_most(self.start(self.out - 1) + self.reach, limit)

    def padded_shares(self) -> Sequence[float]:
        """Return the `padded_count` of each window, as a share of the window."""
        if self._is_sized:
            if self._ends_by(self.size + self.end):
                return computed(repeated, 1.0, self.out)
            return computed(window_shares, *self._numbers)
        return tuple(count / self.window for count in self.padded_counts())

    @property
    def _numbers(self) -> tuple[int, ...]:
        return self.size, self.window, self.stride, self.dilation, self.begin, self.end, self.out

    @property
    def _is_sized(self) -> bool:
        return is_size(self.size) or is_size(self.out)

    def _table(self, count: Callable[[int], int]) -> list[int]:
        """Count the taps of each window: all taps in those that lie on real elements."""
        limits.positions("pooling", self.out)
        first, stop = self.interior
        edges = [count(o) for o in range(first)], [count(o) for o in range(stop, self.out)]
        return [*edges[0], *[self.window] * (stop - first), *edges[1]]

    def slices(self) -> list[slice]:
        """Return the `positions` of each window."""
        return [self.positions(o) for o in limits.positions("pooling", self.out)]


def extents(op: str, name: str, values: Sequence[int], rank: int, low: int = 1) -> tuple[int, ...]:
    """Return one number per spatial axis, checked; empty means the lowest everywhere."""
    if not values:
        return (low,) * rank
    if len(values) != rank:
        raise ArgumentError(f"{op}: {name} {tuple(values)} has {len(values)} numbers for {rank} spatial axes")
    return tuple(limits.within(op, name, int(value), low) for value in values)


def padding_pairs(op: str, pads: Pairs, rank: int) -> Pairs:
    """Return (begin, end) per axis, checked; empty means none."""
    if not pads:
        return ((0, 0),) * rank
    if len(pads) != rank:
        raise ArgumentError(f"{op}: padding {pads} has {len(pads)} pairs for {rank} spatial axes")
    if any(begin < 0 or end < 0 for begin, end in pads):
        raise ArgumentError(f"{op}: padding must be 0 or more, got {pads}; slice the input instead")
    return tuple(
        (limits.within(op, "padding", int(begin)), limits.within(op, "padding", int(end)))
        for begin, end in pads
    )


def same_pads(total: int, upper: bool) -> tuple[int, int]:
    """Split a total padding: the odd element goes to the end for SAME_UPPER, to the start for SAME_LOWER."""
    small, large = total // 2, total - total // 2
    return (small, large) if upper else (large, small)


def same_axis(size: int, window: int, stride: int, dilation: int, upper: bool) -> AxisWindow:
    """Return the windows of SAME padding: ceil(size / stride) of them, the padding as even as it can be."""
    out = -(-size // stride)
    pads = same_pads(max(0, (out - 1) * stride + (window - 1) * dilation + 1 - size), upper)
    return AxisWindow(size, window, stride, dilation, *pads, out)


def explicit_axis(
    size: int, window: int, stride: int, dilation: int, pads: tuple[int, int], ceil_mode: bool, drop: str
) -> AxisWindow:
    """Return the windows of explicit padding; `out` is 0 or less when the window does not fit."""
    begin, end = pads
    slack = size + begin + end - (window - 1) * dilation - 1
    out = (slack + (stride - 1 if ceil_mode else 0)) // stride + 1
    dropping = drop == "always" or (drop == "padded" and (begin or end))
    if ceil_mode and dropping and (out - 1) * stride >= size + begin:
        out -= 1
    return AxisWindow(size, window, stride, dilation, begin, end, out)


def axis_windows(
    op: str,
    size: Sequence[int],
    window: Sequence[int],
    stride: Sequence[int] = (),
    pads: Pairs = (),
    dilation: Sequence[int] = (),
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    drop: str = "always",
) -> tuple[AxisWindow, ...]:
    """Return the windows of a pooling over a map of extents `size`, one AxisWindow per axis.

    Empty `stride` and `dilation` mean ones, empty `pads` none; with `auto_pad` other than NOTSET `pads` and
    `ceil_mode` do not matter. Raises ArgumentError for an argument that is out of range (padding must be
    smaller than the reach of the window, or there would be windows without elements) and ShapeError when a
    window does not fit.
    """
    rank = len(size)
    window = extents(op, "kernel_size", window, rank)
    stride = extents(op, "stride", stride, rank)
    dilation = extents(op, "dilation", dilation, rank)
    pads = padding_pairs(op, pads, rank)
    if auto_pad not in AUTO_PADS:
        raise ArgumentError(f"{op}: auto_pad '{auto_pad}' is not known (allowed: {', '.join(AUTO_PADS)})")
    if drop not in DROP_RULES:
        raise ArgumentError(f"{op}: drop rule '{drop}' is not known (allowed: {', '.join(DROP_RULES)})")
    axes = []
    for axis in range(rank):
        numbers = size[axis], window[axis], stride[axis], dilation[axis]
        if size[axis] < 1:
            raise ShapeError(
                f"{op}: spatial axis {axis} of the input is empty (spatial extents {tuple(size)})"
            )
        if auto_pad.startswith("SAME"):
            axes.append(same_axis(*numbers, upper=auto_pad == "SAME_UPPER"))
            continue
        pair = pads[axis] if auto_pad == "NOTSET" else (0, 0)
        windows = explicit_axis(*numbers, pair, ceil_mode and auto_pad == "NOTSET", drop)
        _check_fits(op, axis, windows)
        axes.append(windows)
    return tuple(axes)


def _check_fits(op: str, axis: int, windows: AxisWindow) -> None:
    if max(windows.begin, windows.end) >= windows.reach:
        raise ArgumentError(
            f"{op}: padding ({windows.begin}, {windows.end}) on spatial axis {axis} must be smaller than the "
            f"window, which covers {windows.reach} (kernel_size {windows.window}, dilation "
            f"{windows.dilation})"
        )
    if windows.out < 1:
        raise ShapeError(
            f"{op}: kernel_size {windows.window} with dilation {windows.dilation} covers {windows.reach} on "
            f"spatial axis {axis}, more than the input's {windows.size} with padding "
            f"{windows.begin}+{windows.end}: the output size would be {windows.out}; pad more, or use a "
            "smaller kernel_size or dilation"
        )


def refuse_empty_windows(op: str, axes: Sequence[AxisWindow]) -> None:
    """Raise ShapeError when some window holds padding only: its maximum or mean does not exist.

    PyTorch gives -inf and an index outside the map there, Caffe and OpenVINO -3.4e38, others NaN. With one
    dilation of 1 and the drop rule "always" no window can be empty.
    """
    for axis, windows in enumerate(axes):
        o = windows.empty_window
        if o is not None:
            raise ShapeError(
                f"{op}: window {o} on spatial axis {axis} holds padding only (first tap at "
                f"{windows.start(o)}, dilation {windows.dilation}, input 0 to {windows.size - 1}); use less "
                "padding or dilation, or ceil_mode=False"
            )


def adaptive_bounds(size: int, out: int) -> tuple[tuple[int, int], ...]:
    """Return the half-open input range of each output of an adaptive pool: floor(o size / out) to ceil((o+1) size /
    out).

    In integers: in floating point one range in a thousand comes out wrong.
    """
    return tuple((o * size // out, -(-(o + 1) * size // out)) for o in limits.positions("pooling", out))


def window_counts(
    size: int, window: int, stride: int, dilation: int, begin: int, end: int, out: int, padded: bool
) -> Sequence[int]:
    """Return `AxisWindow.counts` or, `padded`, `AxisWindow.padded_counts`."""
    axis = AxisWindow(size, window, stride, dilation, begin, end, out)
    return axis.padded_counts() if padded else axis.counts()


def window_shares(
    size: int, window: int, stride: int, dilation: int, begin: int, end: int, out: int
) -> Sequence[float]:
    """Return `AxisWindow.padded_shares`."""
    return AxisWindow(size, window, stride, dilation, begin, end, out).padded_shares()


def window_count_table(
    size: int, window: int, stride: int, dilation: int, begin: int, end: int, out: int
) -> Array:
    """Return `AxisWindow.counts` as an array of int32."""
    return np.array(AxisWindow(size, window, stride, dilation, begin, end, out).counts(), np.int32)


def repeated(value: int, count: int) -> Sequence[int]:
    """Return a number for each position."""
    return [value] * len(limits.positions("pooling", count))


def distinct(counts: Sequence[float]) -> Sequence[float]:
    """Return one number for counts that are `repeated`, known without asking for sizes; other counts as they are."""
    if isinstance(counts, ComputedArray) and counts.function is repeated and not is_size(counts.operands[0]):
        return (counts.operands[0],)
    return counts
