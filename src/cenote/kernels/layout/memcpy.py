"""Copy a tensor to other memory of the same layout, whose rows may lie further apart.

    for row in begin .. end:          emitted; a row is one contiguous run of elements
        copy `run` bytes              the C library's memcpy

An item is one row. Rows are numbered over three outer axes (pictures, channel blocks, rows of the map), the innermost
of which is joined with the next where both sides are dense.
"""

from __future__ import annotations

import math

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import U8
from cenote.core.deferred import dataclass
from cenote.core.sizes import maximum
from cenote.core.target import Target
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named, pointers_to

NUMBERS = ("run", "middle", "inner", "x0", "x1", "x2", "y0", "y1", "y2")  # bytes, rows, strides in bytes


@dataclass(frozen=True)
class MemcpySpec(KernelSpec):
    """Kernel that copies rows of bytes; nothing is specialised."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        return (*pointers_to(U8, "x", "y"), *numbers_named(NUMBERS))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        word = {name: k.number(name) for name in NUMBERS}
        k.declare("memcpy", "ptr (ptr, ptr, i64)")
        for row in k.range(k.begin, k.end):
            inner, rest = row % word["inner"], row // word["inner"]
            middle, outer = rest % word["middle"], rest // word["middle"]
            source = k.pointer("x") + (outer * word["x0"] + middle * word["x1"] + inner * word["x2"])
            target_row = k.pointer("y") + (outer * word["y0"] + middle * word["y1"] + inner * word["y2"])
            k.line(f"call ptr @memcpy(ptr {target_row.text}, ptr {source.text}, i64 {word['run'].text})")
        return k


def memcpy_call(x: View, y: View) -> Call:
    """Return the call that copies x to y: same type, same lanes; halos and outer strides may differ."""
    extents, x_strides, y_strides = list(_axes(x)), list(x.strides), list(y.strides)
    if not x.type.size:  # strides around empty axes need not join
        extents, x_strides, y_strides = [0], [1], [1]
    run = x.layout.lanes or 1
    while extents and x_strides[-1] == y_strides[-1] == run:
        run *= extents.pop()
        x_strides.pop()
        y_strides.pop()
    if len(extents) > 3:
        extents, x_strides, y_strides = _join_outer(extents, x_strides, y_strides)
    while len(extents) < 3:
        extents.insert(0, 1)
        x_strides.insert(0, 0)
        y_strides.insert(0, 0)
    size = x.type.dtype.itemsize
    words: dict[str, Argument] = {
        "x": x,
        "y": y,
        "run": run * size,
        "middle": extents[1],
        "inner": extents[2],
    }
    for name, strides in (("x", x_strides), ("y", y_strides)):
        words |= {f"{name}{axis}": stride * size for axis, stride in enumerate(strides)}
    rows = math.prod(extents) if x.type.size else 0
    grain = maximum(1, (256 << 10) // maximum(run * size, 1))
    return Call.named(MemcpySpec(), words, rows, grain)


def _axes(x: View) -> tuple[int, ...]:
    return (x.shape[0], x.blocks, *x.shape[2:]) if x.layout.is_blocked else x.shape


def _join_outer(
    extents: list[int], x_strides: list[int], y_strides: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """Join neighbouring axes that are dense on both sides until three are left."""
    axis = 0
    while len(extents) > 3 and axis + 1 < len(extents):
        dense = all(s[axis] == s[axis + 1] * extents[axis + 1] for s in (x_strides, y_strides))
        if dense:
            extents[axis : axis + 2] = [extents[axis] * extents[axis + 1]]
            del x_strides[axis], y_strides[axis]
        else:
            axis += 1
    assert len(extents) <= 3, "a value's memory has more than three gaps"
    return extents, x_strides, y_strides
