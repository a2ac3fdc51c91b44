"""Runs one lowering on arrays, without a graph: packs inputs into the layouts it asks for, fills outputs with junk,
puts guard bytes around every buffer, runs the calls in several chunkings, unpacks, checks the guards. What lies in
the guards would spoil a result that it reached, so that reading outside a buffer shows as writing there does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from cenote.codegen import jit
from cenote.core.target import Target
from cenote.core.types import Array, Layout, TensorType, is_float
from cenote.kernels.base import (
    Argument,
    Call,
    KernelSpec,
    View,
    buffer_elements,
    dense_strides,
    halo_offset,
    padded_spatial,
    word_of,
)
from cenote.kernels.launch import with_constants
from cenote.ops.base import Lowering, Op
from cenote.runtime.steps import Slot, SlotKind

GUARD = 256  # bytes on either side of a buffer
# Repeated: NaN in 16 and 32 bits, -6e305 in 64; not all ones, so that stray writes show.
NAN_GUARD = b"\xa5\xff"
# The largest int8, close to the largest integers and floats: what a maximum would keep.
LARGE_GUARD = b"\x7f\x7f"
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


Native = Callable[[KernelSpec, int, Sequence[int], Sequence[Array]], None]
"""Function that calls a kernel at an address with its four arguments; the arrays are all the memory that it uses."""


def native_call(spec: KernelSpec, address: int, arguments: Sequence[int], memory: Sequence[Array]) -> None:
    """Call a kernel on this machine."""
    KERNEL(address)(*arguments)


class ContractError(AssertionError):
    """Error for an operator that breaks its contract."""


def require(holds: bool | np.bool_, what: str) -> None:
    """Raise ContractError unless something holds."""
    if not holds:
        raise ContractError(what)


class GuardedBuffer:
    """Memory of one tensor between guards, aligned to 64 bytes, pre-filled with junk: NaN-like bytes 0xFF between
    guards of NaN, or others (0x5A) between guards of large numbers."""

    def __init__(self, nbytes: int, junk: int = 0xFF) -> None:
        pattern = NAN_GUARD if junk == 0xFF else LARGE_GUARD
        self.memory = np.frombuffer(bytearray(pattern * (nbytes // 2 + GUARD + 33)), np.uint8)
        start = -(self.memory.ctypes.data + GUARD) % 64 + GUARD
        self.data = self.memory[start : start + nbytes]
        self.start, self.nbytes = start, nbytes
        self.clean = self.memory.copy()
        self.junk = junk
        self.data[:] = junk

    def check(self, what: str) -> None:
        """Raise ContractError if anything was written outside."""
        changed = self.memory != self.clean
        require(not changed[: self.start].any(), f"{what}: wrote before its buffer")
        require(not changed[self.start + self.nbytes :].any(), f"{what}: wrote past its buffer")


def pack(array: Array, layout: Layout, buffer: GuardedBuffer) -> None:
    """Write a plain array into a buffer in the layout: zero halo, junk lanes."""
    if not array.size:
        buffer.data[:] = 0
        return
    target = buffer.data.view(array.dtype)
    if not layout.is_blocked:
        target[:] = np.ascontiguousarray(array).ravel()
        return
    interior(target, array.shape, layout, zero_halo=True)[:] = blocked(array, layout.lanes)


def blocked(array: Array, lanes: int) -> Array:
    """(N, C, *spatial) as (N, blocks, *spatial, lanes); lanes past C hold NaN (or 77)."""
    n, channels = array.shape[:2]
    blocks = -(-channels // lanes)
    junk = np.nan if is_float(array.dtype) else 77
    wide = np.full((n, blocks * lanes, *array.shape[2:]), junk, array.dtype)
    wide[:, :channels] = array
    return np.moveaxis(wide.reshape(n, blocks, lanes, *array.shape[2:]), 2, -1)


def interior(flat: Array, shape: Sequence[int], layout: Layout, zero_halo: bool = False) -> Array:
    """The real elements of a blocked buffer as (N, blocks, *spatial, lanes)."""
    spatial = padded_spatial(shape, layout)
    whole = flat.reshape(shape[0], -(-shape[1] // layout.lanes), *spatial, layout.lanes)
    if zero_halo:
        whole[:] = 0
    halo = layout.halo or ((0, 0),) * (len(shape) - 2)
    window = tuple(slice(b, extent + b) for (b, _), extent in zip(halo, shape[2:], strict=True))
    inside: Array = whole[(slice(None), slice(None), *window)]
    return inside


def unpack(buffer: GuardedBuffer, type: TensorType, layout: Layout) -> Array:
    """Read a tensor back as a plain array."""
    if not type.size:
        return np.zeros(type.shape, type.dtype)
    flat = buffer.data.view(type.dtype)
    if not layout.is_blocked:
        return flat.reshape(type.shape).copy()
    inside = np.moveaxis(interior(flat, type.shape, layout), -1, 2)
    n, blocks, lanes = inside.shape[:3]
    return inside.reshape(n, blocks * lanes, *type.shape[2:])[:, : type.shape[1]].copy()


def lowerings_of(op: Op, arrays: Sequence[Array | None], target: Target, constants: bool) -> list[Lowering]:
    """Candidates for these inputs; with `constants`, all but the first input are constants (weights)."""
    return list(op.lowerings(input_types(arrays, constants), target))


def input_types(arrays: Sequence[Array | None], constants: bool) -> list[TensorType | None]:
    types: list[TensorType | None] = []
    for index, array in enumerate(arrays):
        if array is None:
            types.append(None)
        elif constants and index:
            types.append(TensorType.known(array))
        else:
            types.append(TensorType.of(array.dtype, array.shape))
    return types


def run_lowering(
    op: Op,
    lowering: Lowering,
    arrays: Sequence[Array | None],
    target: Target,
    *,
    constants: bool = True,
    chunk: int = 0,
    junk: int = 0xFF,
    native: Native = native_call,
) -> list[Array]:
    """Outputs of a lowering. `chunk` splits the work into pieces of that many items, run in reverse (0: whole);
    `native` calls the kernels."""
    types = input_types(arrays, constants)
    outputs = [*op.infer(*types), *lowering.temporaries]
    layouts = [*lowering.outputs, *[Layout()] * len(lowering.temporaries)]
    buffers: list[GuardedBuffer] = []
    views: list[View | None] = []
    for array, type, layout in zip(arrays, types, lowering.inputs, strict=True):
        if array is None or type is None:
            views.append(None)
            continue
        views.append(new_view(type, layout or Layout(), buffers, junk))
        pack(array, layout or Layout(), buffers[-1])
    made = [new_view(type, layout, buffers, junk) for type, layout in zip(outputs, layouts, strict=True)]
    before = [buffer.data.copy() for buffer in buffers]
    for call in lowering.bind(views, made):
        launch(call, buffers, target, chunk, native)
    for index, buffer in enumerate(buffers):
        buffer.check(f"{op} via {lowering.name}, buffer {index}")
    for index, view in enumerate(views):
        if view is not None:
            kept = buffers[view.slot.index].data
            require(
                np.array_equal(kept, before[view.slot.index]),
                f"{op} via {lowering.name} changed input {index}",
            )
    results = made[: len(lowering.outputs)]
    return [unpack(buffers[v.slot.index], v.type, v.layout) for v in results]


def calls_of(op: Op, lowering: Lowering, types: Sequence[TensorType | None]) -> Sequence[Call]:
    """The calls of a lowering, none of them run: there is no memory behind their views."""
    outputs = [*op.infer(*types), *lowering.temporaries]
    layouts = [*lowering.inputs, *lowering.outputs, *[Layout()] * len(lowering.temporaries)]
    views = [
        None if type is None else view_of(type, layout or Layout(), index)
        for index, (type, layout) in enumerate(zip([*types, *outputs], layouts, strict=True))
    ]
    made = [view for view in views[len(types) :] if view is not None]
    return lowering.bind(views[: len(types)], made)


def view_of(type: TensorType, layout: Layout, buffer: int) -> View:
    """The view of a whole tensor in the buffer of that number."""
    offset = halo_offset(type.shape, layout) * type.dtype.itemsize
    return View(type, layout, dense_strides(type.shape, layout), Slot(SlotKind.ARENA, buffer, offset))


def new_view(type: TensorType, layout: Layout, buffers: list[GuardedBuffer], junk: int) -> View:
    """Return the view of a tensor in a new buffer."""
    buffers.append(GuardedBuffer(buffer_elements(type.shape, layout) * type.dtype.itemsize, junk))
    return view_of(type, layout, len(buffers) - 1)


def launch(
    call: Call, buffers: Sequence[GuardedBuffer], target: Target, chunk: int = 0, native: Native = native_call
) -> None:
    """Run one call, its items in reverse order and so many at a time: no driver does so, and no kernel may notice."""
    constants: list[GuardedBuffer] = []

    def constant(array: Array) -> Slot:
        constants.append(GuardedBuffer(array.nbytes))
        constants[-1].data[:] = np.ascontiguousarray(array).view(np.uint8).ravel()
        return Slot(SlotKind.CONSTANT, len(constants) - 1)

    def address_or_number(argument: Argument) -> int:
        word = word_of(argument)
        if isinstance(word, int):
            return word
        memory = constants if word.kind == "constant" else buffers
        return int(memory[word.index].data.ctypes.data) + word.offset

    call = with_constants(call, constant)
    words = np.array([*map(address_or_number, call.arguments), 0], np.int64)
    scratch = GuardedBuffer(call.scratch, buffers[0].junk if buffers else 0xFF)
    (address,) = jit.addresses([call.spec], target).values()
    memory: list[Array] = [words, *(buffer.memory for buffer in [scratch, *buffers, *constants])]
    size = chunk or max(call.items, 1)
    for begin in reversed(range(0, call.items, size)):
        end = min(begin + size, call.items)
        native(call.spec, address, (words.ctypes.data, begin, end, scratch.data.ctypes.data), memory)
    scratch.check(f"{type(call.spec).__name__}, scratch")
