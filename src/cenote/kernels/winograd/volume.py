"""Winograd convolution of volumes, stride 1: planes are transformed, and the taps across planes are added up before
the results are transformed back.

    item = block of tiles of a plane, block of planes [, range of filters]      emitted
      for channel block, plane that these planes of y see, tile:
        V[xi][plane][channel block][tile] = B^T d B                             once for all taps across planes
      for xi, group of filter vectors, plane of y:
        for runs of up to `widest` tiles:
          M[xi][plane][tile] = sum over taps across planes, channels of V[xi][plane + tap] * U[xi][tap]
      for group, plane of y, tile, filter vector: y = activation(A^T M A + bias + residual)

A sum over taps and channels is one over the channel blocks of neighbouring planes, which lie one after the other. Taps
that see planes of padding are left out, so x needs no halo across planes, and four planes of a 3x3x3 window have 10
products and not 12. With one tap across planes it is a convolution of every plane.

A dilation makes that many volumes of one, along every axis: of every d-th plane, row and column.

Planes and the rows of tiles in them are any axes of x whose steps the words give: a window of 3x1x1 moves along a
plane of depth and width.
"""

from __future__ import annotations

from collections.abc import Iterator

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Value
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.text import split_words
from cenote.kernels.base import numbers_named
from cenote.kernels.winograd.kernel import WinogradEmitter, WinogradSpec
from cenote.kernels.winograd.places import MapOfResults, Pixels
from cenote.kernels.winograd.products import PartOfSum, Products, Runs

PLANE_NUMBERS = split_words(
    # Taps across planes, planes of padding before x; planes of x and of y; those of y in a block.
    "taps before x_planes y_planes plane_block",
    # Blocks of planes; blocks of tiles in a plane.
    "plane_blocks tile_blocks",
    # Steps from plane to plane, in elements.
    "x_plane y_plane r_plane v_plane m_plane",
)
# Sets of every d-th plane that are volumes of their own; steps from plane to next plane.
_PLANE_PHASES = split_words("plane_phases x_next_plane y_next_plane r_next_plane")


@dataclass(frozen=True)
class WinogradVolumeSpec(WinogradSpec):
    """Kernel of volumes; the fields as in WinogradSpec, without `pool`. `dilated`: of every d-th plane too."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        phases = numbers_named(_PLANE_PHASES if self.dilated else ())
        return (*super().words, *numbers_named(PLANE_NUMBERS), *phases)

    def emit(self, target: Target) -> Kernel:
        kernel = self.kernel(target)
        kernel.moves_addresses = True
        _Emitter(self, kernel, target).run()
        return kernel


@dataclass(frozen=True)
class _Planes:
    """Planes of a block: of y from `begin` to `end`, the first one of x that they see, and the end of these."""

    begin: Value
    end: Value
    x_begin: Value
    x_end: Value


@dataclass(frozen=True)
class _VolumeProducts(Products):
    """Emitter of the products of a block, plane by plane of y."""

    planes: _Planes

    def maps(self, v: Pointer, m: Pointer, weights: Pointer, ahead: Value, runs: Runs) -> None:
        k, planes = self.k, self.planes
        blocks = k.number("channel_blocks")
        # The first plane may have fewer taps: the second one prefetches all of the next weights.
        asking = k.min_drop_nan(planes.begin + 1, planes.end - 1)
        for plane in k.range(planes.begin, planes.end):
            first_seen = plane - k.number("before")
            first = k.max_drop_nan(k.integer(0) - first_seen, k.integer(0))
            last = k.min_drop_nan(k.number("taps"), k.number("x_planes") - first_seen)
            count = k.max_drop_nan(last - first, k.integer(0)) * blocks
            self.run_of_tiles(
                v.offset_unchecked((first_seen + first - planes.x_begin) * k.number("v_plane")),
                m + (plane - planes.begin) * k.number("m_plane"),
                weights.offset_unchecked(first * blocks * (self.lanes * self.blocks * self.lanes)),
                ahead,
                runs,
                PartOfSum(count, plane.equals(asking)),
            )


class _Emitter(WinogradEmitter):
    def map_at(self, index: Value, side: str) -> Value:
        """Tiles count from the beginning of their volume."""
        return self.k.integer(0)

    def image_at(self, index: Value, side: str) -> Value:
        k, place = self.k, super().image_at
        if not self.spec.dilated:
            return place(index, side)
        planes = k.number("plane_phases")
        return place(index // planes, side) + index % planes * k.number(f"{side}_next_plane")

    def volume(self, side: str) -> Value:
        """Place of the volume at hand in x, y or the residual."""
        return super().map_at(self.image, side)

    def enter(self, block: Value) -> None:
        k = self.k
        tile_blocks, plane_blocks = k.number("tile_blocks"), k.number("plane_blocks")
        rest = block // tile_blocks
        self.image = rest // plane_blocks
        begin = rest % plane_blocks * k.number("plane_block")
        end = k.min_drop_nan(begin + k.number("plane_block"), k.number("y_planes"))
        seen = begin - k.number("before")
        self.planes = _Planes(
            begin,
            end,
            k.max_drop_nan(seen, k.integer(0)),
            k.min_drop_nan(end - k.number("before") + (k.number("taps") - 1), k.number("x_planes")),
        )
        super().enter(block % tile_blocks)

    def products(self) -> Products:
        spec = self.spec
        return _VolumeProducts(
            self.k, self.lanes, spec.blocks, spec.vertical, spec.horizontal, self.ends, self.planes
        )

    def inputs(self, source: Pixels, v: Pointer) -> Iterator[tuple[Pixels, Pointer]]:
        k, begin = self.k, self.planes.x_begin
        image = source + self.volume("x")
        for plane in k.range(begin, self.planes.x_end):
            yield image + plane * k.number("x_plane"), v + (plane - begin) * k.number("v_plane")

    def outputs(self, m: Pointer) -> Iterator[MapOfResults]:
        k = self.k
        y = k.pointer("y") + self.volume("y")
        r = k.pointer("residual") + self.volume("r")
        for plane in k.range(self.planes.begin, self.planes.end):
            yield MapOfResults(
                m + (plane - self.planes.begin) * k.number("m_plane"),
                y + plane * k.number("y_plane"),
                r + plane * k.number("r_plane"),
            )
