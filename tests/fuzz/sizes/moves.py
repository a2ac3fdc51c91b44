"""Steps that move elements or change shapes, by sizes that are constant or computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.sizes.maker import FLOAT, Axis, Maker, Number, Unfit, Value, same, volume

LINEAR = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric")


def pad(m: Maker) -> Value:
    """Pad by constants, to a multiple, or to the size of another picture."""
    x = m.pick(3, 4)
    mode = m.rng.choice(("constant", "constant", "edge", "reflect"))
    how = m.rng.randrange(3)
    if how == 0 or x.rank == 3:
        before, after = m.rng.choice(((1, 1), (2, 0), (0, 3), (2, 2), (0, 1), (-1, 1), (-1, -1)))
        if mode != "constant" and min(before, after) < 0:
            raise Unfit
        inner = x.rank - 2
        pads = m.ints(0, 0, *[before] * inner, 0, 0, *[after] * inner)
        sides = [side + before + after for side in x.shape[2:]]
        most: Axis = max(before, after)
    else:
        ends = [_missing(m, x, axis, how) for axis in (2, 3)]
        pads = m.vector(0, 0, 0, 0, 0, 0, *ends)
        sides = [side + end.extent for side, end in zip(x.shape[2:], ends, strict=True)]
        most = np.maximum(ends[0].extent, ends[1].extent)
        if np.any(np.less(most, 0)):
            raise Unfit
    if mode == "reflect" and any(np.any(np.less_equal(side, most)) for side in x.shape[2:]):
        raise Unfit
    more = [pads] + ([m.constant(np.float32(0.5))] if mode == "constant" and m.maybe(0.3) else [])
    return m.add("Pad", x, (*x.shape[:2], *sides), *more, exact=True, mode=mode)


def _missing(m: Maker, x: Value, axis: int, how: int) -> Number:
    """How much lacks to a multiple of 4, or to another picture's extent."""
    side = m.number(x, axis)
    if how == 1:
        over = m.node("Mod", [side.name, m.ints(4)])
        left = m.node("Mod", [m.node("Sub", [m.ints(4), over]), m.ints(4)])
        return Number(left, (4 - side.extent % 4) % 4)
    other = m.number(m.pick(4), axis)
    return Number(m.node("Sub", [other.name, side.name]), other.extent - side.extent)


def resize(m: Maker) -> Value:
    """Resize to sizes of another picture or made of its own, or by scales."""
    x = m.map(4)
    given: dict[str, Any] = {"mode": m.rng.choice(("nearest", "nearest", "linear", "linear", "cubic"))}
    if given["mode"] == "nearest":
        given["coordinate_transformation_mode"] = m.rng.choice(("half_pixel", "asymmetric"))
        given["nearest_mode"] = m.rng.choice(("floor", "round_prefer_floor", "round_prefer_ceil", "ceil"))
    else:
        given["coordinate_transformation_mode"] = m.rng.choice(LINEAR)
    exact = given["mode"] == "nearest"
    how = m.rng.randrange(5)
    if how == 0:
        scale = m.rng.choice((2.0, 2.0, 0.5, 1.5, 3.0))
        if given["coordinate_transformation_mode"] == "align_corners":
            raise Unfit  # engines differ where the scaled size is rounded
        sides = [np.floor(side * scale).astype(np.int64) for side in x.shape[2:]]
        return m.add(
            "Resize", x, (*x.shape[:2], *sides), "", m.floats(1, 1, scale, scale), exact=exact, **given
        )
    if how == 1:
        target = [_changed(m, m.number(x, axis)) for axis in (2, 3)]
        sizes, sides = m.vector(*target), [number.extent for number in target]
    else:
        other = m.pick(4)
        sizes, sides = m.extents(other, 2, 4), list(other.shape[2:])
    if how == 4:
        return _resize_by_ratio(m, x, sizes, sides, exact, given)
    if m.maybe():
        given["axes"] = [2, 3]
    else:
        sizes = m.vector(m.extents(x, 0, 2), sizes)
    return m.add("Resize", x, (*x.shape[:2], *sides), "", "", sizes, exact=exact, **given)


def _resize_by_ratio(
    m: Maker, x: Value, sizes: str, sides: list[Axis], exact: bool, given: dict[str, Any]
) -> Value:
    """By scales that are a quotient of sizes, as older exporters wrote it."""
    for old, new in zip(x.shape[2:], sides, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):  # an extent of 0 gives NaN, which is no size
            scale = np.float32(new) / np.float32(old)
            fits = same(np.floor(np.float32(old) * scale), new)
        if not fits:
            raise Unfit  # float32 rounds the size down
    wanted, own = (m.node("Cast", [name], to=FLOAT) for name in (sizes, m.extents(x, 2, 4)))
    ratio = m.node("Div", [wanted, own])
    scales = m.node("Concat", [m.floats(1, 1), ratio], axis=0)
    if given["mode"] == "nearest":
        given["coordinate_transformation_mode"] = "asymmetric"
        given["nearest_mode"] = "floor"
    if given["coordinate_transformation_mode"] == "align_corners":
        raise Unfit
    return m.add("Resize", x, (*x.shape[:2], *sides), "", scales, exact=False, **given)


def _changed(m: Maker, x: Number) -> Number:
    """A size made of a size: n + 4, 2n, n // 2, n - 2, (n + 1) // 2 * 2 …"""
    for _ in range(m.rng.randint(1, 2)):
        how = m.rng.randrange(4)
        if how == 0:
            x = m.plus(x, m.rng.choice((4, 1, -2)))
        elif how == 1:
            x = m.times(x, 2)
        elif how == 2:
            x = m.over(x, 2)
        else:
            x = m.plus(m.over(m.plus(x, -1), 2), 1)
    return x


def concat(m: Maker) -> Value:
    """Values that have all axes alike but one, whose extents may be open."""
    x = m.pick(2, 3, 4)
    axis = m.rng.choice((1, 1, *range(x.rank)))
    others = [
        v for v in m.values
        if v.type == x.type and v.rank == x.rank
        and all(i == axis or same(a, b) for i, (a, b) in enumerate(zip(v.shape, x.shape, strict=True)))
    ]  # fmt: skip
    joined = [x, *(m.rng.choice(others) for _ in range(m.rng.randint(1, 2)))]
    extent: Any = sum(v.shape[axis] for v in joined)
    return m.add("Concat", joined, (*x.shape[:axis], extent, *x.shape[axis + 1 :]), exact=True, axis=axis)


def skip(m: Maker) -> Value:
    """A U-Net's way back: a small picture resized to the size of a large one, and joined to it."""
    big, small = m.map(4), m.map(4)
    if not same(big.shape[0], small.shape[0]):
        raise Unfit
    sizes = m.vector(m.extents(small, 0, 2), m.extents(big, 2, 4))
    mode = m.rng.choice(("nearest", "linear"))
    form = {"coordinate_transformation_mode": "half_pixel"}
    if mode == "nearest":
        form = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    up = m.add(
        "Resize",
        small,
        (*small.shape[:2], *big.shape[2:]),
        "",
        "",
        sizes,
        exact=mode == "nearest",
        mode=mode,
        **form,
    )
    return m.add(
        "Concat", [up, big], (big.shape[0], up.shape[1] + big.shape[1], *big.shape[2:]), exact=True, axis=1
    )


def tile(m: Maker) -> Value:
    x = m.pick(2, 3, 4)
    repeats = [m.rng.choice((1, 1, 2, 3)) for _ in x.shape]
    shape: list[Axis] = [side * count for side, count in zip(x.shape, repeats, strict=True)]
    if m.maybe(0.7):
        return m.add("Tile", x, shape, m.ints(*repeats), exact=True)
    other = m.pick(2, 3, 4)
    axis = m.rng.randrange(other.rank)
    number = m.number(other, axis)
    shape[-1] = x.shape[-1] * number.extent
    return m.add("Tile", x, shape, m.vector(*repeats[:-1], number), exact=True)


def blocks(m: Maker) -> Value:
    """DepthToSpace or SpaceToDepth."""
    x = m.map(4)
    n, c, h, w = x.shape
    if c % 4 == 0 and m.maybe(0.7):  # type: ignore[operator]
        mode = m.rng.choice(("DCR", "CRD"))
        return m.add("DepthToSpace", x, (n, c // 4, h * 2, w * 2), exact=True, blocksize=2, mode=mode)
    if np.any(np.less(0, h % 2)) or np.any(np.less(0, w % 2)):
        raise Unfit
    return m.add("SpaceToDepth", x, (n, c * 4, h // 2, w // 2), exact=True, blocksize=2)


def part(m: Maker) -> Value:
    """Slice from, to and in steps, of constants or of sizes."""
    x = m.pick(2, 3, 4)
    axis = m.rng.choice((x.rank - 1, x.rank - 1, *range(x.rank)))
    side, how = x.shape[axis], m.rng.randrange(6)
    rest = m.ints(axis), m.ints(1)
    if how == 0:
        start, stop, extent = m.ints(1), m.ints(-1), side - 2
    elif how == 1:
        start, stop, extent = m.ints(0), m.ints(1 << 40), -(-side // 2)
        rest = m.ints(axis), m.ints(2)
    elif how == 2:
        start, stop, extent = m.ints(-1), m.ints(-(1 << 40)), side
        rest = m.ints(axis), m.ints(-1)
    elif how == 3:
        half = m.over(m.number(x, axis), 2)
        start, stop, extent = m.ints(0), half.name, half.extent
        if m.maybe():
            start, stop, extent = half.name, m.ints(1 << 62), side - half.extent
    elif how == 4:  # the first or the last few, fewer where there are not so many
        count = m.rng.choice((2, 3, 4))
        start, stop, extent = m.ints(0), m.ints(count), np.minimum(side, count)
        if m.maybe():
            start, stop = m.ints(-count), m.ints(1 << 62)
    else:  # to another's extent, as crops do
        other = m.pick(2, 3, 4)
        number = m.number(other, other.rank - 1)
        start, stop, extent = m.ints(0), number.name, np.minimum(side, number.extent)
    return m.add("Slice", x, (*x.shape[:axis], extent, *x.shape[axis + 1 :]), start, stop, *rest, exact=True)


def reshape(m: Maker) -> Value:
    """Reshape to sizes that are computed, or with 0 and -1."""
    x = m.pick(2, 3, 4)
    how = m.rng.randrange(5)
    if x.rank == 4 and how == 0:
        area = m.times(m.number(x, 2), m.number(x, 3))
        return m.add(
            "Reshape", x, (*x.shape[:2], area.extent), m.vector(m.extents(x, 0, 2), area), exact=True
        )
    if x.rank == 4 and how == 1:
        n, c, h, w = x.shape
        rows = m.times(m.number(x, 0), m.number(x, 2))
        if not m.maybe():
            return (
                m.add("Reshape", x, (rows.extent, c, w), m.vector(rows, c, m.number(x, 3)), exact=True)
                if isinstance(c, int)
                else m.add("Reshape", x, (n, c * h, w), m.ints(0, -1, 0), exact=True)
            )
        return m.add("Reshape", x, (rows.extent, c * w), m.vector(rows, -1), exact=True)
    # Back to a picture, of one row or one column.
    if x.rank == 3 and how == 2 and isinstance(x.shape[1], int):
        n, c, t = x.shape
        shape = (n, c, 1, t) if m.maybe() else (n, c, t, 1)
        to = m.ints(0, 0, 1, -1) if shape[2] is not t else m.ints(0, 0, -1, 1)
        return m.add("Reshape", x, shape, to, exact=True)
    axis = m.rng.randrange(x.rank)
    if how == 3 and not isinstance(x.shape[axis], int) and m.maybe():
        name = m.node("Flatten", [x.name], axis=axis)
        shape = (np.int64(1) * volume(x.shape[:axis]), np.int64(1) * volume(x.shape[axis:]))
        return m.made(name, tuple(_plain(a) for a in shape), x.exact, x.growth)
    name = m.node("Flatten", [x.name], axis=1)
    return m.made(name, (x.shape[0], _plain(volume(x.shape[1:]))), x.exact, x.growth)


def _plain(axis: Any) -> Axis:
    return axis if isinstance(axis, np.ndarray) else int(axis)


def like(m: Maker) -> Value:
    """A picture whose sizes are those of another that has as many elements: Reshape to its Shape."""
    x = m.pick(2, 3)
    others = [v for v in m.values if v.rank == 4 and same(volume(v.shape), volume(x.shape))]
    if not others:
        raise Unfit
    other = m.rng.choice(others)
    return m.add("Reshape", x, other.shape, m.shape_of(other), exact=True)


def transpose(m: Maker) -> Value:
    x = m.pick(2, 3, 4)
    order = list(range(x.rank))
    m.rng.shuffle(order)
    if m.maybe(0.4) and x.rank > 2:
        order = [0, 2, 3, 1] if x.rank == 4 else [0, 2, 1]
    return m.add("Transpose", x, [x.shape[axis] for axis in order], exact=True, perm=order)


def expand(m: Maker) -> Value:
    """Something small made as large as another value, by Expand or beside ConstantOfShape."""
    to = m.pick(3, 4)
    small = [v for v in m.values if v.type == FLOAT and v.rank <= to.rank and _broadcasts(v, to)]
    if m.maybe(0.3) or not small:
        zeros = m.node("ConstantOfShape", [m.shape_of(to)])
        return m.add("Add", to, to.shape, zeros, exact=True)
    x = m.rng.choice(small)
    return m.add("Expand", x, to.shape, m.shape_of(to), exact=True)


def _broadcasts(v: Value, to: Value) -> bool:
    pairs = zip(v.shape[::-1], to.shape[::-1], strict=False)
    return v is not to and all(bool(np.all(np.equal(a, b) | np.equal(a, 1))) for a, b in pairs)


def take(m: Maker) -> Value:
    """Gather by constant places, from either end."""
    x = m.pick(3, 4)
    axis = m.rng.randrange(x.rank)
    count = m.rng.choice((1, 2, 3))
    places = [m.rng.choice((0, -1)) for _ in range(count)]
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return m.add("Gather", x, shape, m.ints(*places), exact=True, axis=axis)


def split(m: Maker) -> Value:
    """Split channels by constants, or an extent into parts as equal as can be."""
    x = m.pick(2, 3, 4)
    axis = m.rng.choice((1, *range(x.rank)))
    side = x.shape[axis]
    if isinstance(side, int):
        if side < 2:
            raise Unfit
        first = m.rng.randint(1, side - 1)
        parts: list[Axis] = [first, side - first]
        name = m.node("Split", [x.name, m.ints(first, side - first)], 2, axis=axis)
    else:
        half = -(-side // 2)
        parts = [half, side - half]
        m.fits(tuple(parts))
        name = m.node("Split", [x.name], 2, axis=axis, num_outputs=2)
    for end, extent in zip(("_1", ""), parts[::-1], strict=True):
        made = m.made(name + end, (*x.shape[:axis], extent, *x.shape[axis + 1 :]), x.exact, x.growth)
    return made


def squeeze(m: Maker) -> Value:
    """An axis of 1 taken away, or put in."""
    x = m.pick(2, 3, 4)
    ones = [axis for axis, side in enumerate(x.shape) if isinstance(side, int) and side == 1]
    if ones and x.rank > 2:
        axis = m.rng.choice(ones)
        return m.add("Squeeze", x, (*x.shape[:axis], *x.shape[axis + 1 :]), m.ints(axis), exact=True)
    if x.rank == 4:
        raise Unfit
    axis = m.rng.randint(0, x.rank)
    return m.add("Unsqueeze", x, (*x.shape[:axis], 1, *x.shape[axis:]), m.ints(axis), exact=True)


MOVES = (pad, pad, resize, resize, resize, skip, skip, concat, concat, tile, blocks, part, part, reshape, reshape, like,
         transpose, expand, take, split, squeeze)  # fmt: skip
