"""Plain float32 maps of few channels as blocks of bfloat16 with a halo, all in one pass.

item = image, row of the halo'd map                               emitted
  for as many pixels as lanes: load each channel, round, interleave, store
  channels that there are not, and the halo: zeros
"""

from __future__ import annotations

from collections.abc import Sequence

from cenote.codegen.bfloat import Bfloat
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import BF16, Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import Argument, Call, KernelSpec, View, float_pointers, numbers_named, pointers_to
from cenote.kernels.layout.reorder import AXES, deep_sizes, deep_strides

NUMBERS = split_words("depth height width to_depth to_height to_width d_begin h_begin w_begin")


@dataclass(frozen=True)
class NarrowFewSpec(KernelSpec):
    """Kernel that makes blocks of `unit` channels of so many `channels`, at most `unit`. `way`: that of
    `codegen.bfloat`."""

    channels: int
    unit: int
    way: str

    @property
    def words(self) -> tuple[Parameter, ...]:
        strides = [f"x_{axis}" for axis in AXES]
        return (*float_pointers(("x",)), *pointers_to(BF16, "y"), *numbers_named([*strides, *NUMBERS]))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        bfloat, n = Bfloat(k, self.way, target.lanes()), k.number
        for item in k.range(k.begin, k.end):
            h, rest = item % n("to_height"), item // n("to_height")
            d, image = rest % n("to_depth"), rest // n("to_depth")
            to = k.pointer("y") + item * n("to_width") * self.unit
            from_d, from_h = d - n("d_begin"), h - n("h_begin")
            inside = (from_d >= 0) & (from_d < n("depth")) & (from_h >= 0) & (from_h < n("height"))
            row = k.select(inside, from_d * n("x_d") + from_h * n("x_h"), k.integer(0))
            source = k.pointer("x") + (image * n("x_n") + row)
            width, left = k.select(inside, n("width"), k.integer(0)), n("w_begin")
            zero = k.constant(BF16, 0, self.unit)
            for w in k.range(0, k.select(inside, left, n("to_width"))):
                to.store(zero, w * self.unit)
            self._pixels(k, bfloat, source, to + left * self.unit, width)
            for w in k.range(left + width, k.select(inside, n("to_width"), k.integer(0))):
                to.store(zero, w * self.unit)
        return k

    def _pixels(self, k: Kernel, bfloat: Bfloat, source: Pointer, to: Pointer, width: Value) -> None:
        """Round one row, whole vectors first."""
        lanes, step, planes = (
            bfloat.lanes,
            k.number("x_w"),
            [k.number("x_c") * c for c in range(self.channels)],
        )
        whole = k.select(step.equals(1), width // lanes * lanes, k.integer(0))
        for w in k.range(0, whole, lanes):
            to.store(
                self._interleaved(k, bfloat, [(source + c).load(w, lanes) for c in planes]), w * self.unit
            )
        for w in k.range(whole, width):
            to.store(
                self._interleaved(k, bfloat, [(source + c).load(w * step) for c in planes]), w * self.unit
            )

    def _interleaved(self, k: Kernel, bfloat: Bfloat, channels: Sequence[Value]) -> Value:
        """Return pixels whose channels lie side by side."""
        lanes = channels[0].lanes
        narrow = [bfloat.narrowed(channel) for channel in channels]
        narrow += [k.constant(BF16, 0, lanes)] * (self.unit - len(narrow))
        if lanes == 1:
            pixel = k.constant(BF16, 0, self.unit)
            for place, value in enumerate(narrow[: len(channels)]):
                pixel = k.assign(
                    f"insertelement {pixel.ir} {pixel.text}, {value.ir} {value.text}, i32 {place}",
                    BF16,
                    self.unit,
                )
            return pixel
        together = k.joined(narrow)
        order = [channel * lanes + lane for lane in range(lanes) for channel in range(self.unit)]
        return k.shuffle(together, together, order)


def narrow_few_call(x: View, y: View, channels: int, way: str) -> Call:
    """Return the call that fills the blocked view y, and its halo, with the plain float32 view x, which has so many
    channels: no more than a block of y."""
    halo = ((0, 0),) * (3 - len(y.layout.halo)) + y.layout.halo
    sizes, unit = deep_sizes(x), y.layout.lanes
    to = tuple(size + begin + end for size, (begin, end) in zip(sizes, halo, strict=True))
    before = sum(begin * step for (begin, _), step in zip(halo, deep_strides(y)[2:], strict=True))
    words: dict[str, Argument] = {
        "x": x,
        "y": y.at(-before),
        **{f"x_{axis}": step for axis, step in zip(AXES, deep_strides(x), strict=True)},
        **dict(zip(NUMBERS, (*sizes, *to, *(begin for begin, _ in halo)), strict=True)),
    }
    grain = maximum(1, (128 << 10) // maximum(1, to[2] * unit * 2))
    return Call.named(NarrowFewSpec(channels, unit, way), words, x.shape[0] * to[0] * to[1], grain)
