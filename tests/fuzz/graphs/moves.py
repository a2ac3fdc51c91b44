"""The nodes of random graphs that move elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzz.graphs.maker import EXACT, SMOOTH, Maker, Step, is_finite
from tests.fuzz.graphs.steps import ALL, F32, FLOATS, I64, some_axes, some_axis
from tests.fuzz.graphs.values import BOOL, INTEGERS, Dropped

MOVED = (*ALL,)


def transpose(m: Maker) -> None:
    x = m.pick(MOVED, (2, 3, 4, 5))
    order = list(range(m.of(x).ndim))
    m.rng.shuffle(order)
    m.add("Transpose", [x], **({} if m.rng.random() < 0.1 else {"perm": order}))


def _factors(m: Maker, size: int) -> list[int]:
    """Extents of that many elements."""
    made = []
    while size > 1 and len(made) < 4:
        fits = [n for n in (2, 3, 4, 5, 7, 8, 11, 16, size) if size % n == 0]
        made.append(m.rng.choice(fits))
        size //= made[-1]
    if size > 1:
        made.append(size)
    for _ in range(m.rng.choice((0, 0, 1))):
        made.insert(m.rng.randint(0, len(made)), 1)
    return made


def reshape(m: Maker) -> None:
    x = m.pick(MOVED)
    shape = m.of(x).shape
    if m.of(x).size == 0:
        m.add("Reshape", [x, m.constant(shape[::-1])], **({"allowzero": 1} if m.opset >= 14 else {}))
        return
    extents = _factors(m, m.of(x).size)
    if len(shape) > 1 and m.rng.random() < 0.5:
        extents = [0, *_factors(m, math.prod(shape[1:]))]
    if extents and m.rng.random() < 0.6:
        extents[m.rng.randrange(len(extents))] = -1
    m.add("Reshape", [x, m.constant(extents)])


def by_its_shape(m: Maker) -> None:
    """Sizes that come from Shape nodes, as exporters write them."""
    x = m.pick(MOVED, (2, 3, 4))
    (shape,) = m.add("Shape", [x])
    (first,) = m.add("Gather", [shape, m.constant([0])], axis=0)
    (there,) = m.add("Concat", [first, m.constant([-1])], axis=0)
    (flat,) = m.add("Reshape", [x, there])
    if m.rng.random() < 0.5:
        m.add("Reshape", [flat, shape])
    elif m.rng.random() < 0.5:
        (zeros,) = m.add("ConstantOfShape", [shape])
        m.add("Add", [zeros, m.partner(zeros)])


def squeeze(m: Maker) -> None:
    x = m.pick(MOVED)
    shape = m.of(x).shape
    if m.rng.random() < 0.5:
        axes = [n for n, extent in enumerate(shape) if extent == 1 and m.rng.random() < 0.7]
        if not axes:
            raise Dropped("nothing to squeeze")
        rank, op = 0, "Squeeze"
    else:
        rank, op = len(shape) + 1, "Unsqueeze"
        axes = [m.rng.randrange(-rank, rank)]
    if m.opset >= 13:
        m.add(op, [x, m.constant(axes)])
    else:
        m.add(op, [x], axes=axes)


def flatten(m: Maker) -> None:
    x = m.pick(MOVED)
    m.add("Flatten", [x], axis=m.rng.randint(-m.of(x).ndim if m.of(x).ndim else 0, m.of(x).ndim))


def expand(m: Maker) -> None:
    x = m.pick(MOVED)
    shape = [m.rng.choice((1, 2, 5)) if n == 1 else m.rng.choice((n, 1)) for n in m.of(x).shape]
    m.add("Expand", [x, m.constant([2, *shape] if m.rng.random() < 0.3 else shape)])


def tile(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3, 4))
    m.add("Tile", [x, m.constant([m.rng.choice((1, 1, 2, 3, 0)) for _ in m.of(x).shape])])


def concat(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3, 4))
    axis = some_axis(m, x)
    shape = list(m.of(x).shape)
    names = [x]
    for _ in range(m.rng.randint(0, 3)):
        others = [
            name
            for name, y in m.values.items()
            if y.dtype == m.of(x).dtype and y.array.ndim == len(shape)
            and all(a == b for n, (a, b) in enumerate(zip(y.array.shape, shape, strict=True)) if n != axis % len(shape))
        ]  # fmt: skip
        if m.rng.random() < 0.7:
            names.append(m.rng.choice(others))
        else:
            shape[axis] = m.rng.choice((0, 1, 3, 8))
            names.append(m.add_leaf(m.of(x).dtype, shape))
    m.rng.shuffle(names)
    m.add("Concat", names, axis=axis)


def split(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3, 4))
    axis = some_axis(m, x)
    extent = m.of(x).shape[axis]
    first = m.rng.randint(0, extent)
    sizes = [first, extent - first]
    if m.opset >= 18 and m.rng.random() < 0.3 and extent > 1:
        m.add("Split", [x], EXACT, 2, axis=axis, num_outputs=2)
    elif m.opset >= 13:
        m.add("Split", [x, m.constant(sizes)], EXACT, 2, axis=axis)
    else:
        m.add("Split", [x], EXACT, 2, axis=axis, split=sizes)


def slice_(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3, 4, 5))
    axes = some_axes(m, m.of(x).ndim)
    starts, ends, steps = [], [], []
    for axis in axes:
        n = m.of(x).shape[axis]
        steps.append(m.rng.choice((1, 1, 1, 2, 3, -1, -2)))
        starts.append(m.rng.choice((0, 1, n // 2, -1, -n, n, -(2**63) if steps[-1] > 0 else 2**63 - 1)))
        ends.append(m.rng.choice((n, n - 1, -1, n // 2, 2**63 - 1 if steps[-1] > 0 else -(2**63), 0, n + 5)))
    given = [starts, ends, axes, steps]
    dtype = m.rng.choice((np.int64, np.int32))
    if dtype == np.int32:
        given = [[max(-(2**31), min(2**31 - 1, item)) for item in each] for each in given]
    m.add("Slice", [x, *(m.constant(each, dtype) for each in given)])


def pad(m: Maker) -> None:
    x = m.pick((*FLOATS[:3], *INTEGERS, BOOL), (1, 2, 3, 4))
    shape = m.of(x).shape
    modes = ("constant", "constant", "reflect", "edge", *(("wrap",) if m.opset >= 19 else ()))
    mode = m.rng.choice(modes)
    if mode != "constant" and 0 in shape:
        raise Dropped("nothing to repeat")
    most = [n - 1 if mode == "reflect" else n if mode == "wrap" else 4 for n in shape]
    low = [-1 if n > 2 and mode == "constant" and m.rng.random() < 0.1 else 0 for n in shape]
    pads = [
        m.rng.choice((0, m.rng.randint(a, max(a, min(b, 4))))) for a, b in zip(low * 2, most * 2, strict=True)
    ]
    more = []
    if mode == "constant" and m.rng.random() < 0.5:
        more = [m.constant(1, m.of(x).dtype)]
    m.add("Pad", [x, m.constant(pads), *more], mode=mode)


def _indices(m: Maker, extent: int, shape: Any) -> str:
    if not extent:
        raise Dropped("no element")
    dtype = m.rng.choice((np.int64, np.int32))
    drawn = np.random.default_rng(m.rng.getrandbits(32)).integers(-extent, extent, shape)
    return m.constant(drawn, dtype)


def gather(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3, 4))
    axis = some_axis(m, x)
    shape = m.rng.choice(((), (1,), (3,), (2, 2), (0,), (17,)))
    m.add("Gather", [x, _indices(m, m.of(x).shape[axis], shape)], axis=axis)


def gather_elements(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3, 4))
    axis = some_axis(m, x)
    shape = [m.rng.randint(min(1, n), n) for n in m.of(x).shape]
    shape[axis] = m.rng.choice((1, 2, 9))
    m.add("GatherElements", [x, _indices(m, m.of(x).shape[axis], shape)], axis=axis)


def gather_nd(m: Maker) -> None:
    x = m.pick(MOVED, (2, 3, 4))
    shape = m.of(x).shape
    depth = m.rng.randint(1, len(shape))
    if 0 in shape:
        raise Dropped("no element")
    source = np.random.default_rng(m.rng.getrandbits(32))
    drawn = np.stack([source.integers(-n, n, (2, 3)) for n in shape[:depth]], -1)
    m.add("GatherND", [x, m.constant(drawn)])


def scatter_elements(m: Maker) -> None:
    x = m.pick(FLOATS[:2] + INTEGERS[2:4], (1, 2, 3))
    axis = some_axis(m, x)
    shape = [m.rng.randint(min(1, n), n) for n in m.of(x).shape]
    extent = m.of(x).shape[axis]
    if not extent:
        raise Dropped("no element")
    lines = np.random.default_rng(m.rng.getrandbits(32)).permutation(extent)[: shape[axis]]
    shape[axis] = len(lines)
    view = [1] * len(shape)
    view[axis] = len(lines)
    indices = m.constant(np.broadcast_to(lines.reshape(view), shape))
    updates = m.add_leaf(m.of(x).dtype, shape)
    op = "ScatterElements"
    m.add(
        op,
        [x, indices, updates],
        axis=axis,
        **({"reduction": "add"} if m.opset >= 16 and m.rng.random() < 0.4 else {}),
    )


def one_hot(m: Maker) -> None:
    x = m.pick((I64, np.dtype(np.int32), F32), (0, 1, 2), exact=True)
    values = m.constant(m.rng.choice(([0, 1], [-2, 5])), m.rng.choice((F32, I64)))
    if m.of(x).dtype == F32 and not (m.of(x) == np.floor(m.of(x))).all():
        raise Dropped("no index")
    m.add("OneHot", [x, m.constant([5]), values], axis=m.rng.choice((-1, 0)))


def nonzero(m: Maker) -> None:
    m.add("NonZero", [m.pick((F32, I64, BOOL, np.dtype(np.int32)), (1, 2, 3), exact=True)])


def compress(m: Maker) -> None:
    x = m.pick(MOVED, (1, 2, 3))
    axis = some_axis(m, x)
    condition = m.add_leaf(BOOL, (m.rng.randint(0, m.of(x).shape[axis]),), constant=False)
    m.add("Compress", [x, condition], axis=axis)


def trilu(m: Maker) -> None:
    x = m.pick((*FLOATS[:2], I64, BOOL), (2, 3))
    if m.opset >= 14:
        more = [m.constant(m.rng.randint(-3, 3))] if m.rng.random() < 0.6 else []
        m.add("Trilu", [x, *more], upper=m.rng.randint(0, 1))


def depth(m: Maker) -> None:
    x = m.pick(FLOATS[:1], (4,))
    _n, c, h, w = m.of(x).shape
    if c % 4 == 0 and m.rng.random() < 0.5:
        m.add("DepthToSpace", [x], blocksize=2, mode=m.rng.choice(("DCR", "CRD")))
    elif h % 2 == 0 and w % 2 == 0:
        m.add("SpaceToDepth", [x], blocksize=2)


def window(m: Maker) -> None:
    """Pools and convolutions in between, whose memory is blocked."""
    x = m.pick(FLOATS[:1], (4,))
    n, c, h, w = m.of(x).shape
    if 0 in (n, c) or min(h, w) < 2:
        raise Dropped("no window")
    choice = m.rng.random()
    if choice < 0.5:
        weight = m.add_leaf(F32, (m.rng.choice((3, 8, 16, 20)), c, 3, 3), "normal", constant=True)
        m.add("Conv", [x, weight], SMOOTH, pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    elif choice < 0.8:
        m.add("MaxPool", [x], kernel_shape=[2, 2], strides=[m.rng.choice((1, 2))] * 2, agreed=is_finite)
    else:
        m.add("GlobalAveragePool", [x], SMOOTH)


# ---- sequences ------------------------------------------------------------------------------------------------


def sequence(m: Maker) -> None:
    """Elements put into a sequence, and one or all taken out again."""
    x = m.pick(MOVED, (1, 2, 3))
    fits = [
        name for name, y in m.values.items() if y.dtype == m.of(x).dtype and y.array.shape == m.of(x).shape
    ]
    names = [x, *(m.rng.choice(fits) for _ in range(m.rng.randint(0, 2)))]
    made, after, result = m.name(), m.name(), m.name()
    nodes = [helper.make_node("SequenceConstruct", names, [made])]
    place = m.constant(m.rng.randint(-len(names), len(names) - 1))
    if m.rng.random() < 0.5:
        nodes.append(helper.make_node("SequenceInsert", [made, x, place], [after]))
    else:
        nodes.append(helper.make_node("SequenceErase", [made, place], [after]))
        if len(names) == 1:
            raise Dropped("an empty sequence")
    choice, reads = m.rng.random(), {*names, place}
    if choice < 0.4:
        first = m.constant(m.rng.choice((0, -1)))
        nodes.append(helper.make_node("SequenceAt", [after, first], [result]))
        reads.add(first)
    elif choice < 0.8:
        axis, new = some_axis(m, x), m.rng.randint(0, 1)
        nodes.append(helper.make_node("ConcatFromSequence", [after], [result], axis=axis, new_axis=new))
    else:
        nodes.append(helper.make_node("SequenceLength", [after], [result]))
    m.enter(Step(tuple(nodes), tuple(reads), (result,), EXACT))


MOVES: tuple[Callable[[Maker], None], ...] = (
    transpose, transpose, reshape, reshape, by_its_shape, squeeze, flatten, expand, tile, concat, concat, split, slice_,
    slice_, pad, gather, gather_elements, gather_nd, scatter_elements, one_hot, nonzero, compress, trilu, depth, window,
    sequence,
)  # fmt: skip
