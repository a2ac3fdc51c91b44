"""Input of the planners (`Problem`), and their result (`TilingPlan`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from cenote.core.deferred import dataclass
from cenote.core.errors import CapacityError
from cenote.core.types import Array
from cenote.tiling.cost import Footprint, TilingCost, cost_of, cycles_of, footprint, tasks_of
from cenote.tiling.hardware import Hardware
from cenote.tiling.layer import Layer, Tile, renamed
from cenote.tiling.policy import Policy

STAGES = ("nc", "aligned-d", "aligned-h", "aligned-w", "unaligned", "search", "passes")


@dataclass(frozen=True)
class Problem:
    """A layer, a machine and a policy, with the checks and costs of a tile on them."""

    layer: Layer
    hardware: Hardware
    policy: Policy

    def whole(self, nc: int, channels: int | None = None) -> Tile:
        """Return the tile of so many planes with whole axes."""
        deep, high, wide = (axis.out for axis in self.layer.axes)
        conv = self.layer.conv
        return Tile(nc, deep, high, wide, channels or (conv.group_channels if conv else 0))

    def footprint(self, tile: Tile) -> Footprint:
        return footprint(self.layer, self.hardware, self.policy, tile)

    def bytes(self, tile: Tile) -> int:
        """Return the bytes that the tile takes in the buffer."""
        return self.footprint(tile).total

    def fits(self, tile: Tile) -> bool:
        return self.bytes(tile) <= self.hardware.ub_bytes

    def parts(self, tile: Tile) -> tuple[int, int, int, int]:
        return tasks_of(self.layer, self.policy, tile)

    def tasks(self, tile: Tile) -> int:
        return math.prod(self.parts(tile))

    @property
    def wanted(self) -> int:
        """The tasks that are needed to occupy every core, as far as there are outputs."""
        return min(self.hardware.cores, self.layer.cells)

    def fed(self, tile: Tile) -> bool:
        """Return whether there is a task for every core; with `enough="waves"` also in the last wave."""
        tasks = self.tasks(tile)
        waves = self.policy.enough == "waves" and self.layer.cells >= self.hardware.cores
        return tasks >= self.wanted and not (waves and tasks % self.hardware.cores)

    def cost(self, tile: Tile) -> TilingCost:
        return cost_of(self.layer, self.hardware, self.policy, tile)

    def cycles(self, tiles: Sequence[Tile]) -> Array:
        """Return the cycles of the busiest core, as in `cost`, with each of several tiles that make equal parts."""
        return cycles_of(self.layer, self.hardware, self.policy, tiles)[0]

    def least_cycles(self, computing: bool = True) -> int:
        """Return a lower bound of the cycles of any plan in one pass: every output computed once, every byte read or
        written moved once, in one burst. Without `computing` of any plan: several passes may compute less."""
        layer, hardware = self.layer, self.hardware
        read = layer.planes if layer.conv is None else layer.conv.n * layer.conv.channels
        for axis in layer.axes:
            read *= min(int(axis.high.max() - axis.low.min()), int(axis.cut(1).inputs.sum()))
        outputs = layer.cells
        moved = sum(read * each.itemsize for each in layer.reads)
        moved += sum(outputs * each.itemsize for each in layer.writes)
        rows = outputs // layer.axes[2].out
        vectors = rows * -(-layer.axes[2].out * layer.dtype.itemsize // hardware.vector_bytes)
        compute = vectors * layer.work / hardware.compute_per_cycle
        transfer = moved / hardware.dma_bytes_per_cycle
        if not computing:
            return int(transfer / hardware.cores)
        if self.policy.copies(hardware) == 1:
            return int((compute + transfer) / hardware.cores)
        return int(max(compute, transfer) / hardware.cores)

    def refuse(self, tile: Tile) -> CapacityError:
        """Return the error for a smallest tile that does not fit."""
        taken = self.footprint(tile)
        parts = {name: getattr(taken, name) for name in ("input", "weights", "output", "indices")}
        text = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
        twice = " (twice, for double buffering)" if taken.copies == 2 else ""
        scratch = f", scratch {taken.scratch:,}" if taken.scratch else ""
        return CapacityError(
            f"tiling {self.layer.title}: the tile of one output needs {taken.total:,} bytes: {text}{twice}{scratch}; "
            f"the buffer of {self.hardware.name} (ub_bytes) has {self.hardware.ub_bytes:,}"
        )


@dataclass(frozen=True)
class TilingPlan:
    """Tiles of one layer on one machine, their cost, and how they were found.

    stage        "nc", "aligned-d", "aligned-h", "aligned-w", "unaligned", "search" or "passes"
    tile         the largest tile, in outputs; tiles at the ends of axes may be smaller
    cost         cycles of the busiest core, bytes in and out of memory, bursts
    lower_bound  cycles that no tile of the searched space can beat; for three stages, that no plan in one pass can beat
    trace        decisions in the order they were made, a sentence each
    """

    problem: Problem
    strategy: str
    stage: str
    tile: Tile
    cost: TilingCost
    lower_bound: int
    trace: tuple[str, ...]

    def __repr__(self) -> str:
        cost = f"{self.cycles:,} cycles (no plan takes less than {self.lower_bound:,})"
        return f"<TilingPlan: {self.layer.title} on {self.hardware.name}, {self.tile}, {self.stage}, {cost}>"

    @property
    def layer(self) -> Layer:
        return self.problem.layer

    @property
    def hardware(self) -> Hardware:
        return self.problem.hardware

    @property
    def policy(self) -> Policy:
        return self.problem.policy

    @property
    def bytes(self) -> int:
        """The bytes that a tile takes in the buffer."""
        return self.problem.bytes(self.tile)

    @property
    def parts(self) -> tuple[int, int, int, int]:
        """The number of parts of the planes, D, H and W."""
        return self.problem.parts(self.tile)

    @property
    def tasks(self) -> int:
        return math.prod(self.parts)

    @property
    def fits(self) -> bool:
        return self.problem.fits(self.tile)

    @property
    def fed(self) -> bool:
        return self.problem.fed(self.tile)

    @property
    def cycles(self) -> int:
        return self.cost.cycles

    @property
    def seconds(self) -> float:
        """The cycles at the hardware's clock."""
        return self.cycles / self.hardware.clock_ghz / 1e9

    @property
    def is_optimal(self) -> bool:
        """True if the lower bound is reached."""
        return self.cost.cycles <= self.lower_bound

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data, for JSON."""
        tile, layer = self.tile, self.layer
        names = ("nc", "d", "h", "w")
        shown: dict[str, int] = dict(zip(names, (tile.nc, *tile.spatial), strict=True))
        parts = dict(zip(names, self.parts, strict=True))
        if layer.conv:
            shown["channels"], parts["channels"] = tile.channels, layer.channel_parts(tile.channels)
        return {
            "layer": layer.title,
            "operator": str(layer.op),
            "input": layer.inputs[0].shape,
            "output": layer.outputs[0].shape,
            "dtype": layer.dtype.name,
            "hardware": self.hardware.to_dict(),
            **{name: getattr(self, name) for name in ("strategy", "stage")},
            "tile": shown,
            "parts": parts,
            **{name: getattr(self, name) for name in ("tasks", "bytes", "fits", "fed", "cycles", "seconds")},
            **{name: getattr(self.cost, name) for name in ("bytes_in", "bytes_out", "bursts")},
            "lower_bound": self.lower_bound,
            "policy": self.policy.to_dict(),
            "trace": list(self.trace),
        }


def titled(plan: TilingPlan, title: str) -> TilingPlan:
    """Return the plan of an equal layer under another name."""
    return replace(plan, problem=replace(plan.problem, layer=renamed(plan.layer, title)))
