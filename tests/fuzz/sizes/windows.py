"""Steps that look through windows: convolutions and pools of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.sizes.maker import CHANNELS, WHOLE, Axis, Maker, Unfit, Value


def _geometry(m: Maker, x: Value, pads: bool = True) -> tuple[dict[str, Any], list[Axis]]:
    """Attributes of a window, and the extents of what it gives."""
    rank = x.rank - 2
    k = m.rng.choice((1, 2, 3, 3, 3, 5))
    stride = m.rng.choice((1, 1, 2, 2, 3))
    dilation = m.rng.choice((1, 1, 1, 2)) if k > 1 else 1
    reach = (k - 1) * dilation + 1
    given: dict[str, Any] = {
        "kernel_shape": [k] * rank,
        "strides": [stride] * rank,
        "dilations": [dilation] * rank,
    }
    how = m.rng.randrange(6)
    if how == 0 and stride <= k and dilation == 1:
        given["auto_pad"] = m.rng.choice(("SAME_UPPER", "SAME_LOWER"))
        return given, [-(-side // stride) for side in x.shape[2:]]
    before, after = m.rng.choice(((0, 0), (0, 0), (reach // 2, reach // 2), (0, 1), (1, 1), (2, 1)))
    if not pads or k == 1:
        before = after = 0
    if max(before, after) >= k:
        raise Unfit
    if how == 1 and not before + after:
        given["auto_pad"] = "VALID"
    else:
        given["pads"] = [before] * rank + [after] * rank
    given["_ends"] = before, before + after, reach
    return given, [(side + before + after - reach) // stride + 1 for side in x.shape[2:]]


def conv(m: Maker) -> Value:
    x = m.map(4, 4, 3)
    channels = x.shape[1]
    assert isinstance(channels, int)
    given, sides = _geometry(m, x)
    given.pop("_ends", None)
    m.fits(tuple(sides))
    kind = m.rng.randrange(4)
    groups, made = 1, m.rng.choice(CHANNELS)
    if kind == 0:
        groups, made = channels, channels * m.rng.choice((1, 1, 2))
    elif kind == 1 and channels % 2 == 0:
        groups = 2
    inside, kernel = channels // groups, given["kernel_shape"]
    fan = inside * kernel[0] ** len(kernel)
    weights = [m.noise(made, inside, *kernel, fan=fan)] + ([m.noise(made)] if m.maybe() else [])
    return m.add("Conv", x, (x.shape[0], made, *sides), *weights, group=groups, **given)


def transposed(m: Maker) -> Value:
    """ConvTranspose."""
    x = m.map(4, 4, 3)
    channels, rank = x.shape[1], x.rank - 2
    assert isinstance(channels, int)
    k, stride = m.rng.choice(((2, 2), (3, 2), (4, 2), (3, 1), (3, 3), (2, 1)))
    dilation = 2 if m.maybe(0.15) else 1
    reach = (k - 1) * dilation + 1
    given: dict[str, Any] = {
        "kernel_shape": [k] * rank,
        "strides": [stride] * rank,
        "dilations": [dilation] * rank,
    }
    if m.maybe(0.15) and dilation == 1:
        given["auto_pad"] = m.rng.choice(("SAME_UPPER", "SAME_LOWER"))
        sides: list[Axis] = [side * stride for side in x.shape[2:]]
    else:
        before, after = m.rng.choice(((0, 0), (0, 0), (1, 1), (0, 1)))
        extra = m.rng.choice((0, 0, 1)) if stride > 1 else 0
        given |= {"pads": [before] * rank + [after] * rank, "output_padding": [extra] * rank}
        sides = [stride * (side - 1) + extra + reach - before - after for side in x.shape[2:]]
    groups = 2 if channels % 2 == 0 and m.maybe(0.3) else 1
    made = m.rng.choice(CHANNELS)
    weights = [m.noise(channels, made // groups, *[k] * rank, fan=channels * k)]
    weights += [m.noise(made)] if m.maybe() else []
    return m.add("ConvTranspose", x, (x.shape[0], made, *sides), *weights, group=groups, **given)


def pool(m: Maker) -> Value:
    """MaxPool, AveragePool or LpPool."""
    x = m.map(4, 4, 3)
    op = m.rng.choice(("MaxPool", "MaxPool", "AveragePool", "LpPool"))
    given, sides = _geometry(m, x)
    before, padding, reach = given.pop("_ends", (0, 0, 0))
    stride = given["strides"][0]
    if op == "AveragePool" and m.opset < 19 and given.pop("dilations")[0] > 1:
        raise Unfit
    if op != "MaxPool" and given["kernel_shape"][0] == 1:
        raise Unfit  # nothing is pooled
    if "auto_pad" not in given and m.maybe(0.4):
        given["ceil_mode"] = 1
        sides = [_ceiled(side, before, padding, reach, stride) for side in x.shape[2:]]
    if op == "AveragePool" and m.maybe(0.4):
        given["count_include_pad"] = 1
    if op == "LpPool":
        given["p"] = m.rng.choice((1, 2))
    return m.add(op, x, (*x.shape[:2], *sides), exact=op == "MaxPool", grows=op == "LpPool", **given)


def _ceiled(side: Axis, before: int, padding: int, reach: int, stride: int) -> Axis:
    """The last window begins within the picture or the padding before it."""
    count = -(-(side + padding - reach) // stride) + 1
    return count - ((count - 1) * stride >= side + before)


def global_pool(m: Maker) -> Value:
    x = m.pick(3, 4)
    op = m.rng.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
    grows = 1.2 if op == "GlobalLpPool" else 0
    return m.add(op, x, (*x.shape[:2], *[1] * (x.rank - 2)), exact=op == "GlobalMaxPool", grows=grows)


def unpool(m: Maker) -> Value:
    """MaxPool with indices, something on the values, and MaxUnpool to the size of the picture."""
    x = m.map(4)
    if not x.exact or any(np.any(np.remainder(side, 2)) for side in x.shape[2:]):
        raise Unfit  # rounding may choose another place; indices of odd pictures mean others in other engines
    sides = [(side - 2) // 2 + 1 for side in x.shape[2:]]
    m.fits(tuple(sides))
    name = m.node("MaxPool", [x.name], 2, kernel_shape=[2, 2], strides=[2, 2])
    shape = (*x.shape[:2], *sides)
    least = m.made(name, shape, True, x.growth)
    places = m.made(f"{name}_1", shape, True, 0.5, WHOLE)
    name = m.node("Relu", [least.name])
    back = m.node("MaxUnpool", [name, places.name, m.shape_of(x)], kernel_shape=[2, 2], strides=[2, 2])
    return m.made(back, x.shape, True, x.growth)


def windowed_rest(m: Maker) -> Value:
    """LRN, over the channels."""
    x = m.map(4)
    return m.add("LRN", x, x.shape, size=m.rng.choice((3, 5)), alpha=0.1, beta=0.75, bias=1.0)


WINDOWS = (
    conv,
    conv,
    conv,
    conv,
    transposed,
    transposed,
    pool,
    pool,
    pool,
    global_pool,
    unpool,
    windowed_rest,
)
