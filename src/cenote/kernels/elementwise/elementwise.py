"""One function of the elements of one or more tensors, broadcast over any axes, plain or channel-blocked.

    for item in begin .. end:                 emitted; an item is a piece of one slab of rows
        offsets of the slab                   outer axes, by division
        for row in the piece:                 emitted
            operands that do not move along the row are loaded
            for column in the row, by vectors:    emitted
                load, compute, store
            the tail of the row               under a mask; element by element for types below 32 bits

The formula is one function, or several as an expression, whose operands may have different types. Results that no
cache would hold are written past the caches.

Callers' arrays begin anywhere (NumPy's large ones 16 bytes behind a cache line, so that with AVX-512 every load and
store crosses lines). In long rows the elements before the first aligned vector are computed apart, as the tail is: exp
of 4 MB took 0.336 ms, now 0.3. Nothing is prefetched: on a Xeon that gained 3 % of exp, on Zen 3 exp of 16 MB takes 1.7
ms with it and 1.28 without.

Memory is described by extents and strides alone: axes along which all operands are dense are joined, broadcast axes
have stride 0. In a blocked tensor the unit is one vector of all lanes. Each element depends on its own operands
only, so the output may take the memory of an input of the same type and strides.

A function of many instructions is one long chain, each waiting for the one before. In long rows such functions are
computed for several vectors side by side, because the instructions that a processor looks ahead (64 floating-point ones
on Zen 3) reach less than three vectors ahead: ns an element, 256 thousand, one by one and four at once on AVX2:

    exp 0.32, 0.29    log 0.94, 0.58    tanh 0.50, 0.42    erf 1.29, 0.86    gelu 0.79, 0.60    softplus 2.1, 1.3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import Pointer, Scalar, Value
from cenote.core.computed import ComputedArray
from cenote.core.deferred import dataclass
from cenote.core.formulas.certain import always_equal, is_broadcast
from cenote.core.sizes import is_size, maximum, minimum
from cenote.core.target import Target
from cenote.core.types import is_float
from cenote.kernels.base import Argument, Call, KernelSpec, View, numbers_named
from cenote.kernels.elementwise.activations import Activation
from cenote.kernels.elementwise.expression import Expression, computed, stored
from cenote.kernels.elementwise.functions import Number, emit_function
from cenote.kernels.strided_axes import axis_names, axis_pointers, axis_words, joined_axes, position_count

MOVES = "vector"  # one element per element of the row
ONE = "scalar"  # the same element all along the row
REPEATS = "repeat"  # the same vector of lanes all along the row (a per-channel operand of a blocked tensor)

PIECE = 16384  # elements of one item: some microseconds of work
LONG = 4096  # elements of a row that is worth an aligned begin
ABREAST = 4  # vectors of a long function that are computed side by side
LONG_FUNCTION = 16  # instructions of a function from which on that pays

# Bytes of a result from which on it is written past the caches: 16 MB take 1.6 ms, not 2.7.
STREAMED = 8 << 20


def vector_lanes(dtype: np.dtype[Any], target: Target) -> int:
    """Elements that a kernel handles at once: a register of the type it computes in."""
    return target.lanes(np.float32) if is_float(dtype) and dtype.itemsize < 4 else target.lanes(dtype)


Made = Callable[[Value, int, "Value | None"], Value]
"""Function that emits the results from a column on: so many lanes, some perhaps masked."""


@dataclass(frozen=True)
class Elementwise(KernelSpec):
    """Kernel of `function` of operands that move along a row as `patterns` say, in vectors of `lanes` elements.

    `outer` counts the axes outside of the rows; `tail` says whether rows may end in a part of a vector. `activation`
    is applied to the function's result. `streams`: rows are written past the caches. `aligns`: memory may begin at
    any address, and rows are long enough to be worth aligned stores. Of both kinds of long rows `abreast` vectors are
    computed side by side.
    """

    function: str | Expression
    parameters: tuple[Number, ...]
    patterns: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]  # of the result, then of each operand
    lanes: int
    outer: int
    tail: bool
    activation: Activation = field(default_factory=Activation)
    streams: bool = False
    aligns: bool = False
    abreast: int = 1

    @property
    def names(self) -> list[str]:
        """Names of the result and the operands."""
        return ["y", *(f"x{n}" for n in range(len(self.patterns)))]

    @property
    def words(self) -> tuple[Parameter, ...]:
        names = self.names
        pointers = [
            Parameter(name, Scalar.of(dtype), pointer=True, may_alias=True)
            for name, dtype in zip(names, self.dtypes, strict=True)
        ]
        numbers = ["columns", "rows", "column_step", "row_step", *(f"row_{name}" for name in names)]
        return (*pointers, *numbers_named([*numbers, *axis_names(self.outer, names)]))

    def emit(self, target: Target) -> Kernel:
        names, k = self.names, self.kernel(target)
        k.keeps_order = self.abreast > 1
        column_pieces = _pieces(k.number("columns"), k.number("column_step"))
        row_pieces = _pieces(k.number("rows"), k.number("row_step"))
        for item in k.range(k.begin, k.end):
            begin, end = _span(k, item % column_pieces, "column_step", "columns")
            rest = item // column_pieces
            first, last = _span(k, rest % row_pieces, "row_step", "rows")
            starts = axis_pointers(k, self.outer, names, rest // row_pieces)
            for row in k.range(first, last):
                pointers = [
                    start + row * k.number(f"row_{name}") for name, start in zip(names, starts, strict=True)
                ]
                self._row(k, pointers, begin, end)
        if self.streams:
            k.fence()
        return k

    def _row(self, k: Kernel, pointers: list[Pointer], begin: Value, end: Value) -> None:
        y, operands = pointers[0], pointers[1:]
        fixed: list[Value | None] = []
        for pattern, x, dtype in zip(self.patterns, operands, self.dtypes[1:], strict=True):
            lanes = self.lanes if pattern == REPEATS else 1
            fixed.append(None if pattern == MOVES else computed(x.load(0, lanes), dtype))

        def plain(column: Value, lanes: int, mask: Value | None) -> Value:
            values = []
            for x, known, dtype in zip(operands, fixed, self.dtypes[1:], strict=True):
                value = computed(x.load(column, lanes, mask), dtype) if known is None else known
                values.append(k.splat(value, lanes))
            return self.activation.emit(k, self._computed(k, values))

        def result(column: Value, lanes: int, mask: Value | None) -> Value:
            if lanes <= self.lanes * self.abreast:
                return stored(plain(column, lanes, mask), self.dtypes[0])
            parts = [plain(column + at, self.lanes, None) for at in range(0, lanes, self.lanes)]
            return stored(k.joined(parts), self.dtypes[0])

        if self.streams or self.aligns:
            self._long_row(k, pointers, result, (begin, end))
            return
        whole = begin + (end - begin) // self.lanes * self.lanes if self.tail else end
        for column in k.range(begin, whole, self.lanes):
            y.store(result(column, self.lanes, None), column)
        if self.tail:
            self._few(k, y, result, whole, end)

    def _long_row(self, k: Kernel, pointers: list[Pointer], result: Made, span: tuple[Value, Value]) -> None:
        """Compute a row, with as much of it as possible stored in whole, aligned registers."""
        (begin, end), y = span, pointers[0]
        # Bytes, too, are stored by whole vectors: 1M float32 to uint8 take 0.094 ms so, with one conversion each.
        whole_vectors = self.streams or y.element.nbytes == 1
        step = max(self.lanes, k.target.vector_bytes // y.element.nbytes if whole_vectors else 1)
        first = self._first_aligned(k, pointers, begin, end, step)
        whole = first + (end - first) // step * step

        ordinary = first
        if self.streams:
            aligned = k.misaligned(y + first, step * y.element.nbytes).equals(0)
            ordinary = k.select(aligned, whole, first)
            register = step * y.element.nbytes
            with k.when(aligned):
                for values, column in self._vectors(k, result, step, (first, whole)):
                    k.store_nontemporal(values, y + column, register)
        for values, column in self._vectors(k, result, step, (ordinary, whole)):
            y.store(values, column)
        for part in k.range(0, 2):
            head = part.equals(0)
            low, high = k.select(head, begin, whole), k.select(head, first, end)
            if step > self.lanes:
                vectors = low + (high - low) // self.lanes * self.lanes
                for column in k.range(low, vectors, self.lanes):
                    y.store(result(column, self.lanes, None), column)
                low = vectors
            self._few(k, y, result, low, high)

    def _vectors(
        self, k: Kernel, result: Made, step: int, span: tuple[Value, Value]
    ) -> Iterator[tuple[Value, Value]]:
        """Yield the results of a span, which is whole steps, several side by side while there are so many; and their
        columns."""
        (low, high), wide = span, max(step, self.lanes * self.abreast)
        if wide > step:
            many = low + (high - low) // wide * wide
            for column in k.range(low, many, wide):
                yield result(column, wide, None), column
            low = many
        for column in k.range(low, high, step):
            yield result(column, step, None), column

    def _few(
        self,
        k: Kernel,
        y: Pointer,
        result: Made,
        begin: Value,
        end: Value,
    ) -> None:
        """Compute fewer elements than a vector has."""
        if min(dtype.itemsize for dtype in self.dtypes) < 4:
            for column in k.range(begin, end):
                y.store(result(column, 1, None), column)
            return
        with k.when(begin < end):
            mask = k.tail_mask(end - begin, self.lanes)
            y.store(result(begin, self.lanes, mask), begin, mask)

    def _first_aligned(
        self, k: Kernel, pointers: list[Pointer], begin: Value, end: Value, step: int
    ) -> Value:
        """Return the first element at which `step` elements of the result are aligned, or a vector of the widest
        operand where the result is narrower and kept in the caches; the start of a row where there is none."""
        moving = [x for x, pattern in zip(pointers[1:], self.patterns, strict=True) if pattern == MOVES]
        y, widest = pointers[0], max(pointers[:1] + moving, key=lambda x: x.element.nbytes)
        pointer = y if self.streams else widest
        size = pointer.element.nbytes
        width = (step if self.streams else self.lanes) * size
        before = (0 - k.misaligned(pointer + begin, width)) & (width - 1)
        possible = (before & (size - 1)).equals(0) & (begin + before // size <= end)
        return k.select(possible, begin + before // size, begin)

    def _computed(self, k: Kernel, values: list[Value]) -> Value:
        if isinstance(self.function, Expression):
            return self.function.emit(k, values, self.dtypes[1:])
        return emit_function(k, self.function, self.parameters, values)


def _pieces(extent: Value, step: Value) -> Value:
    return (extent + step - 1) // step


def _span(k: Kernel, piece: Value, step: str, extent: str) -> tuple[Value, Value]:
    begin = piece * k.number(step)
    end = begin + k.number(step)
    return begin, k.select(end < k.number(extent), end, k.number(extent))


@dataclass(frozen=True)
class Operand:
    """One operand: the kernel's argument, and its strides over the output's axes (0: broadcast).

    For a blocked output the axes are (N, blocks, *spatial), in units of whole vectors; `is_scalar` marks a single
    element that fills all lanes.
    """

    argument: Argument
    strides: tuple[int, ...]
    is_scalar: bool = False


def operand_of(view: View, output: View) -> Operand:
    """Return the operand of a tensor that broadcasts to the output, in the output's layout (or a scalar)."""
    if always_equal(view.type.size, 1) and not (view.layout.is_blocked and output.type.size > 1):
        return Operand(view, (0,) * len(output.strides), is_scalar=True)
    shape = (view.shape[0], view.blocks, *view.shape[2:]) if view.layout.is_blocked else view.shape
    whole = (output.shape[0], output.blocks, *output.shape[2:]) if output.layout.is_blocked else output.shape
    missing = len(output.strides) - len(shape)
    strides = [
        0 if is_broadcast(extent, wanted) else stride
        for extent, wanted, stride in zip(shape, whole[missing:], view.strides, strict=True)
    ]
    return Operand(view, (*[0] * missing, *strides))


def per_channel(argument: Argument, output: View) -> Operand:
    """Return the operand of one value per channel, dense (a blocked output: filled up to whole blocks)."""
    step = output.layout.lanes if output.layout.is_blocked else 1
    strides = [0] * len(output.strides)
    strides[1] = step if output.shape[1] > step else 0
    return Operand(argument, tuple(strides), is_scalar=not output.layout.is_blocked and output.shape[1] == 1)


def elementwise_call(
    function: str | Expression,
    parameters: Sequence[Number],
    operands: Sequence[Operand],
    y: View,
    target: Target,
    weight: int = 1,
    activation: Activation = Activation(),  # noqa: B008  # immutable
) -> Call:
    """Return the launch that computes y. `weight` is the function's approximate cost in instructions."""
    blocked = y.layout.is_blocked
    unit = y.layout.lanes if blocked else 1
    dtypes = (y.type.dtype, *(_dtype(operand.argument) for operand in operands))
    lanes = unit if blocked else common_lanes(function, dtypes, target)
    extents = (y.shape[0], y.blocks, *y.shape[2:]) if blocked else y.shape
    strides = [y.strides, *(operand.strides for operand in operands)]
    axes = joined_axes(extents, strides)
    dense = bool(axes) and axes[-1][1][0] == unit and all(stride in (0, unit) for stride in axes[-1][1])
    inner = axes.pop() if dense else (1, [unit] * len(strides))  # one unit per row where places lie apart
    columns = inner[0] * unit
    patterns = tuple(
        MOVES
        if stride == unit and not operand.is_scalar
        else REPEATS
        if blocked and not operand.is_scalar
        else ONE
        for stride, operand in zip(inner[1][1:], operands, strict=True)
    )
    rows, row_strides = axes.pop() if axes else (1, [0] * len(strides))
    column_step = minimum(maximum(columns, 1), PIECE)
    row_step = maximum(1, minimum(rows, PIECE // column_step))
    pieces = -(-columns // column_step) * -(-rows // row_step) * position_count(axes)
    spec = Elementwise(
        function,
        tuple(parameters),
        patterns,
        dtypes,
        lanes,
        len(axes),
        is_size(columns % lanes) or bool(columns % lanes),
        activation,
        _streams(y, operands, lanes, columns),
        _aligns(y, operands, columns, target),
    )
    spec = _side_by_side(spec, weight)
    words: dict[str, Argument] = {
        "columns": columns,
        "rows": rows,
        "column_step": column_step,
        "row_step": row_step,
    }
    words |= dict(zip(spec.names, (y, *(operand.argument for operand in operands)), strict=True))
    words |= {f"row_{name}": stride for name, stride in zip(spec.names, row_strides, strict=True)}
    work = column_step * row_step * weight
    # A few pieces at a time, but never all of them: a small tensor too is shared among threads.
    grain = maximum(1, minimum(minimum(64, 8 * PIECE // work), pieces // 4))
    # An open extent of 0 makes no pieces; it need not be asked for.
    items = pieces if is_size(y.type.size) or y.type.size else 0
    return Call.named(spec, words | axis_words(axes, spec.names), items, grain)


def _side_by_side(spec: Elementwise, weight: int) -> Elementwise:
    """The kernel with vectors side by side, if its function is long and its rows are too."""
    if weight < LONG_FUNCTION or not (spec.streams or spec.aligns) or REPEATS in spec.patterns:
        return spec
    return replace(spec, abreast=ABREAST) if all(map(is_float, spec.dtypes)) else spec


def common_lanes(function: str | Expression, dtypes: Sequence[np.dtype[Any]], target: Target) -> int:
    """Elements that a kernel of mixed types handles at once: a register of the widest type."""
    between = [step.dtype for step in function.steps] if isinstance(function, Expression) else []
    return min(vector_lanes(dtype, target) for dtype in (*dtypes, *between))


def _streams(y: View, operands: Sequence[Operand], lanes: int, columns: int) -> bool:
    """Whether to write past the caches: a large result, not over an operand, in long rows, of known size."""
    if is_size(y.type.nbytes) or y.type.nbytes < STREAMED or columns < LONG:
        return False
    if lanes * y.type.dtype.itemsize < 16:
        return False
    return not any(isinstance(each.argument, View) and each.argument.slot == y.slot for each in operands)


def _aligns(y: View, operands: Sequence[Operand], columns: int, target: Target) -> bool:
    """Whether rows are long, and memory is the caller's: other memory is aligned. Any allocation is aligned to 16
    bytes."""
    if is_size(columns) or columns < LONG or target.vector_bytes <= 16:
        return False
    views = [y, *(each.argument for each in operands if isinstance(each.argument, View))]
    return any(view.slot.is_callers for view in views)


def _dtype(argument: Argument) -> np.dtype[Any]:
    if isinstance(argument, View):
        return argument.type.dtype
    content = argument.value if isinstance(argument, ComputedArray) else argument
    assert isinstance(content, np.ndarray)
    return content.dtype
