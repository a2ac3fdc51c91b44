"""Moving tensors between layouts: plain to channel-blocked and back; zeros into halos; padding.

reorder:  item = image, channel block, row          emitted
            rows dense:      for `lanes` pixels: load `lanes` channels of `lanes` pixels, transpose, store    unrolled
                             rows of fewer pixels: channel by channel                                         emitted
            channels dense:  for each pixel: one load, one store, masked in the last block                    emitted
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import U8, U16, U32, U64, Pointer, Scalar, Value
from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_equal
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.core.types import Layout
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, padded_spatial, pointers_to
from cenote.kernels.lanes import transposed
from cenote.kernels.strided_axes import is_one

BITS: dict[int, Scalar] = {1: U8, 2: U16, 4: U32, 8: U64}  # moves keep bits: a type is its size
AXES = "ncdhw"  # picture, channel or block, depth, height, width


def deep_strides(view: View) -> tuple[int, int, int, int, int]:
    """Return steps in elements along (n, channel or block, depth, height, width); 0 along missing axes."""
    n, c, *spatial = view.strides
    filled = [0] * (3 - len(spatial)) + spatial
    return (n, c, filled[0], filled[1], filled[2])


def _strides(name: str, strides: Sequence[int]) -> dict[str, int]:
    """Words for the strides that `deep_strides` gives."""
    return {f"{name}_{axis}": stride for axis, stride in zip(AXES, strides, strict=True)}


def deep_sizes(view: View) -> tuple[int, int, int]:
    """Spatial extents over (depth, height, width)."""
    spatial = view.shape[2:]
    depth, height, width = (1,) * (3 - len(spatial)) + spatial
    return depth, height, width


@dataclass(frozen=True)
class ReorderSpec(KernelSpec):
    """Kernel from plain to blocked (`to_blocked`) or back. `bytes` is an element's size; `dense`: the axes that are
    contiguous on the plain side."""

    to_blocked: bool
    lanes: int
    bytes: int
    dense: Literal["rows", "channels", "nothing"]

    @property
    def words(self) -> tuple[Parameter, ...]:
        strides = (f"{side}_{axis}" for side in "pb" for axis in AXES)
        numbers = ["channels", "blocks", "height", "depth", "width", *strides]
        return (*pointers_to(BITS[self.bytes], "x", "y"), *numbers_named(numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        plain, blocked = ("x", "y") if self.to_blocked else ("y", "x")
        for item in k.range(k.begin, k.end):
            row, rest = item % k.number("height"), item // k.number("height")
            d, rest = rest % k.number("depth"), rest // k.number("depth")
            block, n = rest % k.number("blocks"), rest // k.number("blocks")
            place: dict[str, Value] = {"n": n, "d": d, "h": row}
            b = k.pointer(blocked) + (_offset(k, "b", place) + block * k.number("b_c"))
            p = k.pointer(plain) + (_offset(k, "p", place) + block * self.lanes * k.number("p_c"))
            self._row(k, p, b, k.number("channels") - block * self.lanes)
        return k

    def _row(self, k: Kernel, plain: Pointer, blocked: Pointer, left: Value) -> None:
        """Move one row of one block, which has `left` or `lanes` channels, whichever is less."""
        width, lanes = k.number("width"), self.lanes
        if self.dense == "channels":
            self._pixels(k, plain, blocked, left)
            return
        # The lanes past the last channel read it again, or write it first and are overwritten: no branch.
        last = left - 1
        channels = [k.select(last < c, last, k.integer(c)) * k.number("p_c") for c in range(lanes)]
        start: Value = k.integer(0)
        if self.dense == "rows" and self.bytes != 2:
            start = k.select(width < lanes, start, width)
            self._squares(k, plain, blocked, channels, start)
        for tail in k.range(start, width):
            at, inside = tail * k.number("p_w"), tail * lanes
            for lane, c in reversed(list(enumerate(channels))):
                if self.to_blocked:
                    blocked.store((plain + c).load(at), inside + lane)
                else:
                    (plain + c).store(blocked.load(inside + lane), at)

    def _squares(
        self, k: Kernel, plain: Pointer, blocked: Pointer, channels: Sequence[Value], end: Value
    ) -> None:
        """Move the pixels of a row up to `end`, as many as lanes at a time. The last step moves as many as the
        others, too: some pixels are moved twice (one by one, 8 of 56 took half of a row's time)."""
        lanes = self.lanes
        last = end - lanes
        for first in k.range(0, end, lanes):
            w = k.select(last < first, last, first)
            if self.to_blocked:
                vectors = [(plain + c).load(w, lanes) for c in channels]
                for pixel, vector in enumerate(transposed(k, vectors)):
                    blocked.store(vector, (w + pixel) * lanes)
            else:
                vectors = [blocked.load((w + pixel) * lanes, lanes) for pixel in range(lanes)]
                for c, vector in reversed(list(zip(channels, transposed(k, vectors), strict=True))):
                    # Rows lie apart, and a store waits for its line (as in transpose.py). 512 channels of 14x14 on a
                    # Xeon with AVX-512, one thread: 45 to 26 us, 3,072 450 to 260, of 28x28 and more the same.
                    k.prefetch(plain + c, w + lanes, write=True)
                    (plain + c).store(vector, w)

    def _pixels(self, k: Kernel, plain: Pointer, blocked: Pointer, left: Value) -> None:
        """Move one row whose channels lie side by side."""
        width, none, lanes = k.number("width"), k.integer(0), self.lanes
        ragged = left < lanes
        for mask, count in (
            (None, k.select(ragged, none, width)),
            (k.tail_mask(left, lanes), k.select(ragged, width, none)),
        ):
            for pixel in k.range(0, count):
                at, inside = pixel * k.number("p_w"), pixel * lanes
                if self.to_blocked:
                    blocked.store(plain.load(at, lanes, mask), inside)
                else:
                    plain.store(blocked.load(inside, lanes, mask), at, mask)


def _offset(k: Kernel, side: str, place: dict[str, Value]) -> Value:
    total: Value = k.integer(0)
    for axis, index in place.items():
        total = total + index * k.number(f"{side}_{axis}")
    return total


def reorder_call(x: View, y: View) -> Call:
    """Return the call that copies between a plain and a blocked view of one type. Halos are not written, junk lanes
    get anything. The plain view may have any strides: its axes may lie in another order."""
    to_blocked = y.layout.is_blocked
    plain, blocked = (x, y) if to_blocked else (y, x)
    lanes, nbytes = blocked.layout.lanes, plain.type.dtype.itemsize
    p, b = deep_strides(plain), deep_strides(blocked)
    depth, height, width = deep_sizes(plain)
    if _rows_join(p, (depth, height, width), p[4]) and _rows_join(b, (depth, height, width), lanes):
        depth, height, width = 1, 1, depth * height * width
    dense: Literal["rows", "channels", "nothing"] = (
        "rows" if is_one(p[4]) else "channels" if is_one(p[1]) else "nothing"
    )
    spec = ReorderSpec(to_blocked, lanes, nbytes, dense)
    items = plain.shape[0] * blocked.blocks * depth * height
    moved = maximum(1, width * lanes * nbytes)
    words: dict[str, Argument] = {
        "x": x,
        "y": y,
        "channels": plain.shape[1],
        "blocks": blocked.blocks,
        "height": height,
        "depth": depth,
        "width": width,
        **_strides("p", p),
        **_strides("b", b),
    }
    return Call.named(spec, words, items if width else 0, grain=maximum(1, (256 << 10) // moved))


def _rows_join(strides: Sequence[int], sizes: tuple[int, int, int], step: int) -> bool:
    """Whether all pixels of a channel lie `step` apart in one run."""
    depth, height, width = sizes
    rows = always_equal(height, 1) or strides[3] == width * step
    planes = always_equal(depth, 1) or strides[2] == height * width * step
    return strides[4] == step and rows and planes


HALO_NUMBERS = split_words(
    "blocks n_step c_step d_step h_step width left right depth d_begin d_end height h_begin h_end",
)


@dataclass(frozen=True)
class HaloSpec(KernelSpec):
    """Kernel that writes zeros, or the bits of another `value`, into the halo of a blocked view. `bytes` is an
    element's size."""

    lanes: int
    bytes: int
    value: int = 0

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*pointers_to(BITS[self.bytes], "y"), *numbers_named(HALO_NUMBERS))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        for item in k.range(k.begin, k.end):
            n, block = item // k.number("blocks"), item % k.number("blocks")
            base = k.pointer("y") + (n * k.number("n_step") + block * k.number("c_step"))
            for d in k.range(0, k.number("depth")):
                for h in k.range(0, k.number("height")):
                    self._row(k, base + (d * k.number("d_step") + h * k.number("h_step")), d, h)
        return k

    def _row(self, k: Kernel, row: Pointer, d: Value, h: Value) -> None:
        """Write zeros to all of a row in the halo, and to the ends of a row inside."""
        inside = (d >= k.number("d_begin")) & (d < k.number("d_end"))
        inside = inside & (h >= k.number("h_begin")) & (h < k.number("h_end"))
        width, zero = k.number("width"), k.constant(BITS[self.bytes], self.value, self.lanes)
        for w in k.range(0, k.select(inside, k.number("left"), width)):
            row.store(zero, w * self.lanes)
        for w in k.range(k.select(inside, width - k.number("right"), width), width):
            row.store(zero, w * self.lanes)


def zero_halo_call(view: View, value: int = 0) -> Call:
    """Return the call that writes zeros, or other bits, to the halo of a blocked view; it has no items when there is no
    halo."""
    layout, shape = view.layout, view.shape
    nbytes = view.type.dtype.itemsize
    if not layout.is_blocked or not any(begin or end for begin, end in layout.halo):
        empty = Layout(layout.lanes or 1)
        return Call.named(
            HaloSpec(empty.lanes, nbytes), {"y": view, **dict.fromkeys(HALO_NUMBERS, 0)}, items=0
        )
    halo = ((0, 0),) * (3 - len(layout.halo)) + layout.halo
    padded = padded_spatial(shape, layout)
    depth, height, width = (1,) * (3 - len(padded)) + padded
    n_step, c_step, d_step, h_step, _ = deep_strides(view)
    begin = sum(border[0] * step for border, step in zip(halo, deep_strides(view)[2:], strict=True))
    words: dict[str, Argument] = {
        "y": view.at(-begin),
        "blocks": view.blocks,
        "n_step": n_step,
        "c_step": c_step,
        "d_step": d_step,
        "h_step": h_step,
        "width": width,
        "left": halo[2][0],
        "right": halo[2][1],
        "depth": depth,
        "d_begin": halo[0][0],
        "d_end": depth - halo[0][1],
        "height": height,
        "h_begin": halo[1][0],
        "h_end": height - halo[1][1],
    }
    touched = (depth * height * width - _interior(shape)) * layout.lanes * nbytes
    grain = maximum(1, (128 << 10) // maximum(1, touched))
    return Call.named(HaloSpec(layout.lanes, nbytes, value), words, shape[0] * view.blocks, grain)


def _interior(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape[2:]:
        total *= extent
    return total


@dataclass(frozen=True)
class PadSpec(KernelSpec):
    """Kernel that copies a plain tensor into a larger one with zeros around its rows. `bytes` is an element's size."""

    bytes: int

    @property
    def words(self) -> tuple[Parameter, ...]:
        sizes = (
            "depth",
            "height",
            "width",
            "to_depth",
            "to_height",
            "to_width",
            "d_begin",
            "h_begin",
            "w_begin",
        )
        strides = (f"x_{axis}" for axis in AXES)
        return (*pointers_to(BITS[self.bytes], "x", "y"), *numbers_named([*strides, "channels", *sizes]))

    def emit(self, target: Target) -> Kernel:
        element, k = BITS[self.bytes], self.kernel(target)
        for item in k.range(k.begin, k.end):
            h, rest = item % k.number("to_height"), item // k.number("to_height")
            d, rest = rest % k.number("to_depth"), rest // k.number("to_depth")
            c, n = rest % k.number("channels"), rest // k.number("channels")
            to = k.pointer("y") + item * k.number("to_width")
            from_d, from_h = d - k.number("d_begin"), h - k.number("h_begin")
            inside = (
                (from_d >= 0) & (from_d < k.number("depth")) & (from_h >= 0) & (from_h < k.number("height"))
            )
            width, left = k.select(inside, k.number("width"), k.integer(0)), k.number("w_begin")
            at = n * k.number("x_n") + c * k.number("x_c")
            row = at + k.select(inside, from_d * k.number("x_d") + from_h * k.number("x_h"), k.integer(0))
            source, zero = k.pointer("x") + row, k.constant(element, 0)
            for w in k.range(0, k.select(inside, left, k.number("to_width"))):
                to.store(zero, w)
            self._copy(k, source, to + left, width, target.vector_bytes // self.bytes)
            for w in k.range(left + width, k.select(inside, k.number("to_width"), k.integer(0))):
                to.store(zero, w)
        return k

    def _copy(self, k: Kernel, source: Pointer, to: Pointer, width: Value, lanes: int) -> None:
        whole = k.select(k.number("x_w").equals(1), width // lanes * lanes, k.integer(0))
        for w in k.range(0, whole, lanes):
            to.store(source.load(w, lanes), w)
        for w in k.range(whole, width):
            to.store(source.load(w * k.number("x_w")), w)


def pad_call(x: View, y: View, begins: Sequence[int]) -> Call:
    """Return the call that copies plain x into the dense plain y of larger spatial extents, with `begins` zeros
    before it along each axis."""
    (depth, height, width), to = deep_sizes(x), deep_sizes(y)
    first = (0,) * (3 - len(begins)) + tuple(begins)
    items = x.shape[0] * x.shape[1] * to[0] * to[1]
    nbytes = x.type.dtype.itemsize
    words: dict[str, Argument] = {
        "x": x,
        "y": y,
        **_strides("x", deep_strides(x)),
        "channels": x.shape[1],
        "depth": depth,
        "height": height,
        "width": width,
        "to_depth": to[0],
        "to_height": to[1],
        "to_width": to[2],
        "d_begin": first[0],
        "h_begin": first[1],
        "w_begin": first[2],
    }
    grain = maximum(1, (128 << 10) // maximum(1, to[2] * nbytes))
    return Call.named(PadSpec(nbytes), words, items, grain)
