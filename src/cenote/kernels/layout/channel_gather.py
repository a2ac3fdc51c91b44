"""Gather of channels of channel-blocked tensors into another one, in any order.

    for row in begin .. end:                    emitted; a row of pixels of one picture
        for block of the output:                unrolled: which lanes come from where is known now
            for pixel of the row:               emitted
                load the source blocks, shuffle their lanes together, store

An output block takes one load per source block it draws on and one shuffle for each beyond the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

Sources = tuple[tuple[int, int], ...]
STRIDES = ("image", "block", "plane", "row")


@dataclass(frozen=True)
class ChannelGatherSpec(KernelSpec):
    """Kernel that gathers channels. `sources`: (tensor, channel) of each output channel. Elements are moved as 32-bit
    words."""

    sources: Sources
    tensors: int

    @property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return [*(f"x{i}" for i in range(self.tensors)), "y"]

    @property
    def words(self) -> tuple[Parameter, ...]:
        element = Scalar("i32", "int", 32, "i32")
        numbers = [f"{name}_{axis}" for name in self.names for axis in STRIDES]
        words = numbers_named([*numbers, "rows", "planes", "width"])
        return (*pointers_to(element, *self.names), *words)

    def emit(self, target: Target) -> Kernel:
        lanes, names, k = target.lanes(), self.names, self.kernel(target)
        k.moves_addresses = True
        for item in k.range(k.begin, k.end):
            row, rest = item % k.number("rows"), item // k.number("rows")
            plane, image = rest % k.number("planes"), rest // k.number("planes")
            starts = {
                name: k.pointer(name)
                + (
                    image * k.number(f"{name}_image")
                    + plane * k.number(f"{name}_plane")
                    + row * k.number(f"{name}_row")
                )
                for name in names
            }
            for block in range(-(-len(self.sources) // lanes)):
                wanted = self.sources[block * lanes : (block + 1) * lanes]
                self._emit_block(k, starts, block, wanted, lanes)
        return k

    def _emit_block(
        self, k: Kernel, starts: dict[str, Pointer], block: int, wanted: Sources, lanes: int
    ) -> None:
        inputs = list(dict.fromkeys((tensor, channel // lanes) for tensor, channel in wanted))
        rows = [starts[f"x{tensor}"] + k.number(f"x{tensor}_block") * part for tensor, part in inputs]
        out = starts["y"] + k.number("y_block") * block
        for pixel in k.range(0, k.number("width")):
            vectors = [row.load(pixel * lanes, lanes) for row in rows]
            out.store(_shuffled(k, vectors, inputs, wanted, lanes), pixel * lanes)


def _shuffled(
    k: Kernel, vectors: Sequence[Value], inputs: Sequence[tuple[int, int]], wanted: Sources, lanes: int
) -> Value:
    """Return one vector with the wanted lanes; lanes past the last channel hold anything."""
    homes = [(inputs.index((tensor, channel // lanes)), channel % lanes) for tensor, channel in wanted]
    homes += [(-1, 0)] * (lanes - len(homes))
    if (
        all(home[0] in (0, -1) and home[1] in (lane, 0) for lane, home in enumerate(homes))
        and len(vectors) == 1
    ) and all(home[0] == -1 or home[1] == lane for lane, home in enumerate(homes)):
        return vectors[0]
    first = [home[1] if home[0] == 0 else -1 for home in homes]
    if len(vectors) == 1:
        return k.shuffle(vectors[0], vectors[0], first)
    both = [lane if home == 0 else lanes + lane if home == 1 else -1 for home, lane in homes]
    result = k.shuffle(vectors[0], vectors[1], both)
    for source in range(2, len(vectors)):
        placed = [
            lanes + lane if home == source else position if 0 <= home < source else -1
            for position, (home, lane) in enumerate(homes)
        ]
        result = k.shuffle(result, vectors[source], placed)
    return result


def channel_gather_call(sources: Sources, inputs: Sequence[View], y: View) -> Call:
    """The call for blocked views of one 4-byte type with the same pictures and spatial axes."""
    spec = ChannelGatherSpec(sources, len(inputs))
    words: dict[str, Argument] = {}
    for name, view in zip(spec.names, (*inputs, y), strict=True):
        image, block, *spatial = view.strides
        strides = (image, block, *([0, 0, *spatial[:-1]])[-2:])
        words |= {name: view, **{f"{name}_{axis}": step for axis, step in zip(STRIDES, strides, strict=True)}}
    planes, rows, width = ([1, 1, *list(y.shape[2:])])[-3:]
    items = y.shape[0] * planes * rows if y.type.size else 0
    per_row = maximum(1, width * y.blocks * y.layout.lanes * 8)
    words |= {"rows": rows, "planes": planes, "width": width}
    return Call.named(spec, words, items, grain=maximum(1, (128 << 10) // per_row))


def bytes_moved(sources: Sources, pixels: int) -> int:
    """Bytes read and written, for estimates."""
    return 2 * len(sources) * pixels * 4
