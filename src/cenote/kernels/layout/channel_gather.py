"""Gather of channels of channel-blocked tensors into another one, in any order.

    for row in begin .. end:                    emitted; a row of pixels of one picture
        for run of output blocks:               unrolled: which lanes come from where is known now
            for block of the run:               emitted; output and source blocks advance in equal steps
                for pixel of the row:           emitted
                    load the source blocks, shuffle their lanes together, store

An output block takes one load per source block it draws on and one shuffle for each beyond the first. The blocks of a
channel shuffle repeat a few patterns: the WebAssembly module of ShuffleNet-v2 has 87 KB with runs, 138 without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.core.deferred import dataclass
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
            for run in runs_of(self.sources, lanes):
                _emit_run(k, starts, run, lanes)
        return k


@dataclass(frozen=True)
class BlockRun:
    """Output blocks that take the same lanes from source blocks in equal steps.

    `homes`: (source, lane) of each lane of the output, none for those past the last channel; `tensors`: tensor of each
    source; `first`: the output's block and that of each source; `step`: their steps; `count`: output blocks.
    """

    homes: tuple[tuple[int, int], ...]
    tensors: tuple[int, ...]
    first: tuple[int, ...]
    step: tuple[int, ...]
    count: int

    def joined(self, other: BlockRun) -> BlockRun | None:
        """The run with a single block after it, None where that block does not continue it."""
        step = tuple(there - here for here, there in zip(self.first, other.first, strict=False))
        if (self.homes, self.tensors) != (other.homes, other.tensors):
            return None
        if self.count > 1 and step != tuple(self.count * one for one in self.step):
            return None
        return replace(self, step=self.step if self.count > 1 else step, count=self.count + 1)


def runs_of(sources: Sources, lanes: int) -> list[BlockRun]:
    """The runs that write all output blocks, each with its pattern's next blocks as far as the steps stay equal."""
    runs: list[BlockRun] = []
    for block in range(-(-len(sources) // lanes)):
        wanted = sources[block * lanes : (block + 1) * lanes]
        inputs = list(dict.fromkeys((tensor, channel // lanes) for tensor, channel in wanted))
        homes = tuple(
            (inputs.index((tensor, channel // lanes)), channel % lanes) for tensor, channel in wanted
        )
        tensors = tuple(tensor for tensor, _ in inputs)
        one = BlockRun(homes, tensors, (block, *(part for _, part in inputs)), (0,) * (1 + len(inputs)), 1)
        for at in reversed(range(len(runs))):
            longer = runs[at].joined(one)
            if longer is not None:
                runs[at] = longer
                break
        else:
            runs.append(one)
    return runs


def _emit_run(k: Kernel, starts: dict[str, Pointer], run: BlockRun, lanes: int) -> None:
    names = ["y", *(f"x{tensor}" for tensor in run.tensors)]
    strides = [k.number(f"{name}_block") for name in names]
    for block in k.range(0, run.count):
        out, *rows = (
            starts[name] + stride * (block * step + first)
            for name, stride, first, step in zip(names, strides, run.first, run.step, strict=True)
        )
        for pixel in k.range(0, k.number("width")):
            vectors = [row.load(pixel * lanes, lanes) for row in rows]
            out.store(_shuffled(k, vectors, run.homes, lanes), pixel * lanes)


def _shuffled(k: Kernel, vectors: Sequence[Value], homes: Sequence[tuple[int, int]], lanes: int) -> Value:
    """Return one vector with the wanted lanes; lanes past the last channel hold anything."""
    if len(vectors) == 1 and all(lane == from_lane for lane, (_, from_lane) in enumerate(homes)):
        return vectors[0]
    homes = [*homes, *[(-1, 0)] * (lanes - len(homes))]
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
