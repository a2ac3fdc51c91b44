"""Operators of quantised graphs that are no sums of products: pools, arithmetic, activations, movement."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.quantized.maker import MICROSOFT, OFTEN, REAL, Maker, Quantised
from tests.fuzz.quantized.sums import BYTES, activated, window


def pool(m: Maker) -> None:
    x = m.pick()
    made = None if x is None or len(x.shape) not in (3, 4, 5) else window(m, x.shape)
    if x is None or made is None:
        return
    attributes, kernel, extents = made
    pads = attributes.get("pads", ())
    if any(pad >= k for pad, k in zip(pads, (*kernel, *kernel), strict=False)):
        return
    shape = (*x.shape[:2], *extents)
    kind = m.rng.choice(("MaxPool", "MaxPool", "AveragePool"))
    if kind == "AveragePool" and m.opset < 19:
        del attributes["dilations"]
        return
    if kind == "MaxPool" and m.opset >= 12 and x.dtype.name in BYTES and m.chance(0.3):
        m.add(Quantised(m.node(kind, x.name, **attributes), x.dtype, shape, x.scale, x.zero), share=0)
        return
    if kind == "AveragePool":
        attributes["count_include_pad"] = m.rng.choice((0, 1))
    _back(m, x, m.node(kind, m.dequantised(x), **attributes), shape, share=0 if kind == "MaxPool" else OFTEN)


def _back(m: Maker, x: Quantised, y: str, shape: tuple[int, ...], share: float = OFTEN) -> None:
    """Quantise a result, by x's own parameters or others."""
    if x.scale and m.chance(0.5):
        domain = MICROSOFT if x.dtype.itemsize == 2 and m.opset < 21 else ""
        name = m.node("QuantizeLinear", y, x.scale, x.zero, domain=domain)
        m.add(Quantised(name, x.dtype, shape, x.scale, x.zero), share)
    else:
        m.quantised(y, shape, share=share)


def whole_pool(m: Maker) -> None:
    x = m.pick()
    if x is None or len(x.shape) < 3:
        return
    shape = (*x.shape[:2], *[1] * (len(x.shape) - 2))
    if m.chance(0.3) and x.dtype.name in BYTES and x.scale and not m.odd and np.prod(x.shape):
        y_scale, y_zero = m.parameters(x.dtype)
        operands = (x.name, x.scale, x.zero, y_scale, y_zero)
        name = m.node("QLinearGlobalAveragePool", *operands, domain=MICROSOFT, channels_last=0)
        m.add(Quantised(name, x.dtype, shape, y_scale, y_zero), OFTEN)
        return
    _back(m, x, m.node("GlobalAveragePool", m.dequantised(x)), shape)


def pair(m: Maker) -> None:
    """Sums, products and joints of two values."""
    x = m.pick()
    alike = [each for each in m.values if x is not None and each.shape == x.shape and each.dtype.name in REAL]
    if x is None:
        return
    other = m.rng.choice(alike)
    kind = m.rng.choice(("Add", "Add", "Mul", "Sub", "Concat", "Concat"))
    if kind == "Concat":
        if not x.shape:
            return
        axis = min(1, len(x.shape) - 1)
        shape = (*x.shape[:axis], x.shape[axis] + other.shape[axis], *x.shape[axis + 1 :])
        if shape[axis] <= 200:
            _back(m, x, m.node(kind, m.dequantised(x), m.dequantised(other), axis=axis), shape)
        return
    if (
        m.chance(0.3)
        and x.dtype == other.dtype
        and x.dtype.name in BYTES
        and x.scale
        and other.scale
        and not m.odd
    ):
        y_scale, y_zero = m.parameters(x.dtype)
        operands = (x.name, x.scale, x.zero, other.name, other.scale, other.zero, y_scale, y_zero)
        name = m.node(f"QLinear{'Mul' if kind == 'Mul' else 'Add'}", *operands, domain=MICROSOFT)
        m.add(Quantised(name, x.dtype, x.shape, y_scale, y_zero), OFTEN)
        return
    y = activated(m, m.node(kind, m.dequantised(x), m.dequantised(other)))
    m.quantised(y, x.shape, 9.0, OFTEN)


def activation(m: Maker) -> None:
    x = m.pick()
    if x is None:
        return
    plain = m.rng.choice(("Sigmoid", "LeakyRelu", ""))
    if plain and m.chance(0.5) and x.dtype.name in BYTES and x.scale and not m.odd and np.prod(x.shape):
        y_scale, y_zero = m.parameters(x.dtype, 1.0 if plain == "Sigmoid" else 6.0)
        attributes = {"alpha": 0.2} if plain == "LeakyRelu" else {}
        operands = (x.name, x.scale, x.zero, y_scale, y_zero)
        name = m.node(f"QLinear{plain}", *operands, domain=MICROSOFT, **attributes)
        m.add(Quantised(name, x.dtype, x.shape, y_scale, y_zero), OFTEN)
        return
    m.quantised(activated(m, m.dequantised(x)), x.shape, m.rng.choice((1.0, 6.0)), OFTEN)


def softmax(m: Maker) -> None:
    x = m.pick()
    if x is not None and x.shape:
        m.quantised(m.node("Softmax", m.dequantised(x), axis=-1), x.shape, 1.0, OFTEN)


def resize(m: Maker) -> None:
    x = m.pick(rank=4)
    if x is None or m.opset < 13 or np.prod(x.shape) > 1 << 14:
        return
    mode = m.rng.choice(("nearest", "nearest", "linear"))
    scales = m.constant([1.0, 1.0, 2.0, 2.0], np.float32)
    attributes: dict[str, Any] = {"mode": mode}
    if mode == "nearest":
        attributes |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    y = m.node("Resize", m.dequantised(x), "", scales, **attributes)
    _back(m, x, y, (*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]), share=0 if mode == "nearest" else OFTEN)


def move(m: Maker) -> None:
    """Transposition, padding, flattening, of floats or of the bytes themselves."""
    x = m.pick()
    if x is None or m.opset < 11 or len(x.shape) < 2:
        return
    stored = m.chance(0.4) and x.dtype.itemsize == 1
    source = x.name if stored else m.dequantised(x)
    kind = m.rng.choice(("Transpose", "Flatten", "Pad", "Slice"))
    if kind == "Transpose":
        order = list(range(len(x.shape)))
        m.rng.shuffle(order)
        y, shape = m.node(kind, source, perm=order), tuple(x.shape[axis] for axis in order)
    elif kind == "Flatten":
        y, shape = m.node(kind, source, axis=1), (x.shape[0], int(np.prod(x.shape[1:])))
        if shape[1] > 2000:
            return
    elif kind == "Slice":
        y = m.node(kind, source, *(m.constant([each], np.int64) for each in (0, 1 << 30, 1, 2)))
        shape = (x.shape[0], -(-x.shape[1] // 2), *x.shape[2:])
    else:
        if stored and (not x.zero or m.constants[x.zero].size != 1):
            return
        fill = m.constants[x.zero].reshape(()) if stored else np.float32(0)
        pads = [0] * (2 * len(x.shape))
        pads[-1] = pads[len(x.shape) - 1] = 1
        y = m.node(
            kind,
            source,
            m.constant(pads, np.int64),
            m.constant(np.asarray(fill, x.dtype if stored else None)),
        )
        shape = (*x.shape[:-1], x.shape[-1] + 2)
    if stored:
        m.add(Quantised(y, x.dtype, shape, x.scale, x.zero), share=0)
    else:
        _back(m, x, y, shape, share=0)


def again(m: Maker) -> None:
    """The same numbers in another type or at another scale."""
    x = m.pick()
    if x is not None:
        m.quantised(m.dequantised(x), x.shape, share=0)


def mean(m: Maker) -> None:
    """The mean over whole maps, or over some axes."""
    x = m.pick()
    if x is None or not x.shape or m.opset < 18 or not np.prod(x.shape):
        return
    places = range(len(x.shape))
    axes = (
        [2, 3]
        if len(x.shape) == 4 and m.chance(0.5)
        else sorted(m.rng.sample(places, min(len(places), m.rng.choice((1, 1, 2)))))
    )
    kept = m.rng.choice((0, 1))
    shape = tuple(
        1 if axis in axes else extent for axis, extent in enumerate(x.shape) if kept or axis not in axes
    )
    y = m.node("ReduceMean", m.dequantised(x), m.constant(axes, np.int64), keepdims=kept)
    m.quantised(y, shape, share=OFTEN)


def chosen(m: Maker) -> None:
    """One of two values for each element, in floats or as QLinearWhere."""
    x = m.pick(kinds=BYTES)
    if x is None or not x.scale or m.odd or m.broken or not np.prod(x.shape):
        return
    alike = [each for each in m.values if each.shape == x.shape and each.dtype == x.dtype and each.scale]
    other = m.rng.choice(alike)
    condition = m.constant(m.noise.random(x.shape) < 0.5)
    if m.chance(0.5):
        y_scale, y_zero = m.parameters(x.dtype)
        operands = (x.name, x.scale, x.zero, other.name, other.scale, other.zero, y_scale, y_zero)
        name = m.node("QLinearWhere", condition, *operands, domain=MICROSOFT)
        m.add(Quantised(name, x.dtype, x.shape, y_scale, y_zero), share=0)
        return
    y = m.node("Where", condition, m.dequantised(x), m.dequantised(other))
    m.quantised(y, x.shape, share=0)


OTHERS = (
    pool,
    pool,
    whole_pool,
    pair,
    pair,
    pair,
    activation,
    softmax,
    resize,
    move,
    move,
    again,
    mean,
    mean,
    chosen,
)
