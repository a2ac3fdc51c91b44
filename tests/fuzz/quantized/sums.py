"""Convolutions and products of quantised graphs: between dequantisation and quantisation, and as operators of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.quantized.maker import DENORMAL, MICROSOFT, ODD, OFTEN, Array, Maker, Quantised

BYTES = ("uint8", "int8")
INT32 = np.dtype(np.int32)
FLOAT32 = np.dtype(np.float32)


def weights(
    m: Maker, shape: tuple[int, ...], depth: int, filters: int, beside: Quantised, kinds: tuple[str, ...] = BYTES
) -> tuple[str, str, str, np.dtype[Any], bool]:  # fmt: skip
    """The names of weights, their scale and zero point, the type, and whether there is a scale per filter."""
    dtype = np.dtype(m.rng.choice(("int8", *kinds)))
    if beside.dtype == np.int8 and m.chance(0.85):  # the only pair with s8 that ONNX Runtime has
        dtype = np.dtype(np.int8)
    values = m.whole(shape, dtype)
    if m.chance(0.3):
        values //= 2  # of 7 bits
    many = m.chance(0.5) and m.opset >= 13
    count: tuple[int, ...] = (filters,) if many else ()
    if many and m.faulty and m.chance(0.2):
        m.broken, count = True, (filters + m.rng.choice((-1, 1, 2)),)
    size = 1 / (73 * np.sqrt(max(1, depth)))
    scale = np.array(
        [m.scale_of(size, (*ODD, *DENORMAL)) for _ in range(max(1, *count) if many else 1)], np.float32
    )
    scale = scale[: count[0]] if many else scale.reshape(())
    limits = np.iinfo(dtype)
    middle = 0 if dtype.kind == "i" else (limits.max + 1) // 2
    zero = np.full(count, middle, dtype)
    if m.chance(0.25):
        zero = m.whole(count, dtype)
    return m.constant(values), m.constant(scale), m.constant(zero), dtype, many


def window(m: Maker, x: tuple[int, ...]) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]] | None:
    """Attributes of a window over the axes behind the first two, its extents, and those of the result."""
    rank = len(x) - 2
    kernel = tuple(m.rng.choice((1, 1, 2, 3, 3, 5)) for _ in range(rank))
    strides = tuple(m.rng.choice((1, 1, 1, 2, 3)) for _ in range(rank))
    dilations = tuple(m.rng.choice((1, 1, 1, 2)) for _ in range(rank))
    pads = [m.rng.choice((0, k // 2, k // 2, k - 1)) for k in kernel]
    after = [m.rng.choice((pad, pad, 0, 1)) for pad in pads]
    made: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "dilations": dilations}
    extents = []
    for axis, (k, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True)):
        left = x[2 + axis] + pads[axis] + after[axis] - (k - 1) * dilation - 1
        if left < 0:
            return None
        extents.append(left // stride + 1)
    # ONNX Runtime's pads are negative where steps are larger than windows.
    if m.chance(0.1) and all(k >= stride for k, stride in zip(kernel, strides, strict=True)):
        made["auto_pad"] = "SAME_UPPER"
        made["dilations"] = (1,) * rank
        extents = [-(-extent // stride) for extent, stride in zip(x[2:], strides, strict=True)]
    else:
        made["pads"] = (*pads, *after)
    return made, kernel, tuple(extents)


def groups(m: Maker, channels: int) -> tuple[int, int]:
    """Groups, and filters."""
    fits = [each for each in (1, 1, 1, 2, 3, 4, channels, channels) if each and channels % each == 0]
    count = m.rng.choice(fits)
    return count, count * m.rng.choice((1, 1, 2, 3) if count > 2 else (1, 3, 8, 16, 17, 33))


def activated(m: Maker, x: str) -> str:
    kind = m.rng.choice(("", "", "Relu", "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSwish", "Tanh"))
    if kind == "Clip" and m.opset < 11:
        return m.node("Clip", x, min=-0.5, max=3.0)
    if kind == "Clip":
        low, high = sorted((m.numbers.uniform(-2, 2), m.numbers.uniform(-2, 6)))
        return m.node("Clip", x, m.constant(np.float32(low)), m.constant(np.float32(high)))
    return m.node(kind, x) if kind and (kind != "HardSwish" or m.opset >= 14) else x


def convolution(m: Maker) -> None:
    """Conv between dequantisation and quantisation."""
    x = m.pick()
    made = None if x is None or len(x.shape) not in (3, 4, 5) else window(m, x.shape)
    if x is None or made is None:
        return
    attributes, kernel, extents = made
    group, filters = groups(m, x.shape[1])
    shape = (filters, x.shape[1] // group, *kernel)
    wide = ("int16", "uint16") if m.wide else ()
    w, scale, zero, _, many = weights(m, shape, int(np.prod(shape[1:])), filters, x, (*BYTES, *wide))
    axis = {"axis": 0} if many else {}
    operands = [m.dequantised(x), m.node("DequantizeLinear", w, scale, zero, **axis)]
    bias = m.rng.choice(("", "whole", "whole", "float", "other scale"))
    if bias == "float" or (bias and not x.scale):
        operands.append(m.constant(m.noise.standard_normal(filters), np.float32))
    elif bias:
        operands.append(whole_bias(m, x, m.constants[scale], filters, bias == "other scale"))
    y = activated(m, m.node("Conv", *operands, group=group, **attributes))
    m.quantised(y, (x.shape[0], filters, *extents))


def whole_bias(m: Maker, x: Quantised, scale: Array, filters: int, other: bool) -> str:
    """A dequantised bias of whole numbers, at the scale of the sums or at another."""
    scales = m.constants[x.scale].reshape(()) * scale * np.float32(3 if other else 1)
    if m.opset >= 13 and scales.shape in ((), (filters,)) and m.chance(0.5):
        scales = np.broadcast_to(scales, (filters,))
    sums = m.constant(m.noise.integers(-3000, 3000, filters), np.int32)
    behind = {"axis": 0} if scales.ndim else {}
    return m.node("DequantizeLinear", sums, m.constant(scales, np.float32), **behind)


def linear_convolution(m: Maker) -> None:
    """QLinearConv, ConvInteger, or the latter with what dynamic quantisation writes behind it."""
    x = m.pick(kinds=BYTES)
    made = None if x is None or len(x.shape) not in (3, 4, 5) else window(m, x.shape)
    if x is None or made is None or (x.shape[0] == 0):
        return
    attributes, kernel, extents = made
    group, filters = groups(m, x.shape[1])
    shape = (filters, x.shape[1] // group, *kernel)
    w, scale, zero, _, _ = weights(m, shape, int(np.prod(shape[1:])), filters, x)
    y_shape = (x.shape[0], filters, *extents)
    if m.chance(0.6):
        y = x.dtype if m.chance(0.85) else np.dtype(m.rng.choice(BYTES))
        y_scale, y_zero = m.parameters(y)
        bias = m.constant(m.noise.integers(-3000, 3000, filters), np.int32) if m.chance(0.6) else ""
        name = m.node(
            "QLinearConv",
            x.name,
            x.scale,
            x.zero,
            w,
            scale,
            zero,
            y_scale,
            y_zero,
            bias,
            group=group,
            **attributes,
        )
        m.add(Quantised(name, y, y_shape, y_scale, y_zero), share=0)
        return
    zeros = (x.zero, zero) if m.constants[zero].ndim == 0 else (x.zero, "")
    sums = m.node("ConvInteger", x.name, w, *zeros[: m.rng.choice((1, 2))], group=group, **attributes)
    _behind(
        m, sums, y_shape, x.scale, (1, filters, *[1] * len(extents)), 1 / (73 * np.sqrt(np.prod(shape[1:])))
    )


def _behind(
    m: Maker, sums: str, shape: tuple[int, ...], scale: str, one_each: tuple[int, ...], size: float
) -> None:
    """Whole sums, or the conversion, the scale and the bias behind them."""
    if m.chance(0.3):
        m.add(Quantised(sums, INT32, shape), share=0)
        return
    factor = np.asarray(m.scale_of(size) * m.constants[scale].reshape(()), np.float32)
    if m.chance(0.4):
        factor = (factor * m.noise.uniform(0.5, 2, one_each)).astype(np.float32)
    sides = [m.node("Cast", sums, to=1), m.constant(factor)]
    m.rng.shuffle(sides)
    y = m.node("Mul", *sides)
    if m.chance(0.6):
        bias = m.constant(m.noise.standard_normal(one_each if m.chance(0.8) else ()), np.float32)
        y = m.node("Add", y, bias)
    if m.chance(0.5):
        y = m.node("Relu", y)
    m.add(Quantised(y, FLOAT32, shape), share=0)
    if m.chance(0.7):
        m.quantised(y, shape, share=0)


def product(m: Maker) -> None:
    """Gemm or MatMul between dequantisation and quantisation."""
    x = m.pick()
    if x is None or len(x.shape) < 2:
        return
    depth, columns = x.shape[-1], m.rng.choice((1, 2, 7, 16, 33, 64))
    gemm = len(x.shape) == 2 and m.chance(0.6)
    turned = gemm and m.chance(0.5)
    shape = (columns, depth) if turned else (depth, columns)
    w, scale, zero, _, many = weights(m, shape, depth, columns, x)
    axis = {"axis": 0 if turned else 1} if many else {}
    operands = [m.dequantised(x), m.node("DequantizeLinear", w, scale, zero, **axis)]
    if gemm:
        if m.chance(0.5):
            operands.append(m.constant(m.noise.standard_normal((columns,)), np.float32))
        y = m.node("Gemm", *operands, transB=int(turned), alpha=m.rng.choice((1.0, 1.0, 0.5)))
    else:
        y = m.node("MatMul", *operands)
        if m.chance(0.5):
            y = m.node("Add", y, m.constant(m.noise.standard_normal((columns,)), np.float32))
    m.quantised(activated(m, y), (*x.shape[:-1], columns))


def linear_product(m: Maker) -> None:
    """QLinearMatMul, MatMulInteger, QGemm, MatMulIntegerToFloat, DynamicQuantizeMatMul."""
    x = m.pick(kinds=BYTES)
    if x is None or len(x.shape) < 2 or m.odd:
        return
    depth, columns = x.shape[-1], m.rng.choice((1, 2, 7, 16, 33, 64))
    kind = m.rng.choice(("QLinearMatMul", "MatMulInteger", "QGemm", "MatMulIntegerToFloat"))
    turned = kind == "QGemm" and m.chance(0.5)
    shape = (columns, depth) if turned else (depth, columns)
    w, scale, zero, _, many = weights(m, shape, depth, columns, x)
    y_shape = (*x.shape[:-1], columns)
    if kind == "QLinearMatMul":
        y = np.dtype(m.rng.choice(BYTES))
        y_scale, y_zero = m.parameters(y)
        if y != x.dtype:
            return
        name = m.node(kind, x.name, x.scale, x.zero, w, scale, zero, y_scale, y_zero)
        m.add(Quantised(name, y, y_shape, y_scale, y_zero), share=0)
    elif kind == "MatMulInteger":
        sums = m.node(kind, x.name, w, x.zero, *([] if many else [zero]))
        _behind(m, sums, y_shape, x.scale, (columns,), 1 / (73 * np.sqrt(depth)))
    elif kind == "QGemm" and len(x.shape) == 2:
        _qgemm(m, x, (w, scale, zero), columns, turned)
    elif kind == "MatMulIntegerToFloat":
        bias = m.constant(m.noise.standard_normal(columns), np.float32) if m.chance(0.5) else ""
        y = m.node(kind, x.name, w, x.scale, scale, x.zero, zero, bias, domain=MICROSOFT)
        m.add(Quantised(y, FLOAT32, y_shape))


def _qgemm(m: Maker, x: Quantised, w: tuple[str, str, str], columns: int, turned: bool) -> None:
    y = x.dtype
    y_scale, y_zero = m.parameters(y)
    bias = m.constant(m.noise.integers(-3000, 3000, columns), np.int32) if m.chance(0.6) else ""
    attributes = {"transB": int(turned), "alpha": m.rng.choice((1.0, 1.0, 0.5))}
    name = m.node("QGemm", x.name, x.scale, x.zero, *w, bias, y_scale, y_zero, domain=MICROSOFT, **attributes)
    m.add(Quantised(name, y, (x.shape[0], columns), y_scale, y_zero))


def dynamic(m: Maker) -> None:
    """Floats quantised by their own range, multiplied, and back."""
    x = m.pick()
    if x is None or m.opset < 11 or len(x.shape) < 2 or m.odd or m.broken or not np.prod(x.shape):
        return
    depth, columns = x.shape[-1], m.rng.choice((1, 7, 16, 33))
    q, scale, zero = m.several("DynamicQuantizeLinear", 3, m.dequantised(x))
    w, w_scale, w_zero, _, many = weights(
        m, (depth, columns), depth, columns, Quantised(q, np.dtype(np.uint8), x.shape)
    )
    sums = m.node("MatMulInteger", q, w, zero, *([] if many else [w_zero]))
    y = m.node("Mul", m.node("Cast", sums, to=1), m.node("Mul", scale, w_scale))
    if m.chance(0.5):
        y = m.node("Add", y, m.constant(m.noise.standard_normal(columns), np.float32))
    m.add(Quantised(y, FLOAT32, (*x.shape[:-1], columns)))


def residual(m: Maker) -> None:
    """The sum of a convolution's bytes and of those that it reads, or that another convolution of them makes."""
    x = m.pick(kinds=BYTES)
    if x is None or len(x.shape) not in (3, 4, 5) or not x.scale or m.opset < 13:
        return
    sides = [_kept_shape(m, x), x if m.chance(0.5) else _kept_shape(m, x)]
    m.rng.shuffle(sides)
    y = m.node("Add", *(m.dequantised(each) for each in sides))
    m.quantised(activated(m, y) if m.chance(0.7) else y, x.shape, 9.0, OFTEN)


def _kept_shape(m: Maker, x: Quantised) -> Quantised:
    """A convolution of bytes, quantised, whose result has the shape of what it reads."""
    channels, rank = x.shape[1], len(x.shape) - 2
    kernel, group = (m.rng.choice((1, 3)),) * rank, m.rng.choice((1, 1, channels))
    shape = (channels, channels // group, *kernel)
    w, scale, zero, _, many = weights(m, shape, int(np.prod(shape[1:])), channels, x)
    operands = [m.dequantised(x), m.node("DequantizeLinear", w, scale, zero, **({"axis": 0} if many else {}))]
    if m.chance(0.5):
        operands.append(whole_bias(m, x, m.constants[scale], channels, other=False))
    y = m.node("Conv", *operands, group=group, kernel_shape=kernel, pads=[k // 2 for k in kernel] * 2)
    return m.quantised(m.node("Relu", y) if m.chance(0.3) else y, x.shape)


SUMS = (
    convolution,
    convolution,
    convolution,
    linear_convolution,
    linear_convolution,
    residual,
    product,
    linear_product,
    dynamic,
)
