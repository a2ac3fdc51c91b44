"""The nodes that random graphs are made of. Each function adds one to a maker, or raises Dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cenote.core.types import is_float
from tests.fuzz.graphs.maker import EXACT, JUMPS, SMOOTH, Maker, is_finite
from tests.fuzz.graphs.values import BOOL, FLOATS, INTEGERS, Dropped

I64, F32 = np.dtype(np.int64), np.dtype(np.float32)
NUMBERS = (*FLOATS, *INTEGERS)
SIGNED = (*FLOATS, *INTEGERS[:4])
ALL = (*NUMBERS, BOOL)
CALLS = {
    **dict.fromkeys(("Neg", "Abs"), (SIGNED, EXACT, 1)),
    **dict.fromkeys(("Relu", "Sqrt"), (FLOATS, EXACT, 1)),
    **dict.fromkeys(("Floor", "Ceil"), (FLOATS, JUMPS, 1)),
    "Round": (FLOATS, JUMPS, 11),
    "Sign": (NUMBERS, JUMPS, 9),
    "Identity": (ALL, EXACT, 1),
    **dict.fromkeys(
        ("Exp", "Log", "Sigmoid", "Tanh", "Softplus", "Elu", "LeakyRelu", "HardSigmoid", "Reciprocal", "Sin", "Cos",
         "Tan", "Atan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Selu", "Softsign",
         "ThresholdedRelu", "Celu"), (FLOATS, SMOOTH, 12),
    ),
    "HardSwish": (FLOATS, SMOOTH, 14),
    "Mish": (FLOATS, SMOOTH, 18),
    "Gelu": (FLOATS, SMOOTH, 20),
    "Swish": (FLOATS, SMOOTH, 24),
    "Not": ((BOOL,), EXACT, 1),
    "BitwiseNot": (INTEGERS, EXACT, 18),
    "IsNaN": (FLOATS[:3], EXACT, 13),
}  # fmt: skip
ATTRIBUTES: dict[str, dict[str, tuple[Any, ...]]] = {
    "Elu": {"alpha": (1.0, 0.5)},
    "LeakyRelu": {"alpha": (0.01, 0.25)},
    "ThresholdedRelu": {"alpha": (1.0, 0.3)},
    "HardSigmoid": {"alpha": (0.2, 0.1)},
    "Gelu": {"approximate": ("none", "tanh")},
}


def some_attributes(m: Maker, op: str) -> dict[str, Any]:
    return {
        name: m.rng.choice(values) for name, values in ATTRIBUTES.get(op, {}).items() if m.rng.random() < 0.6
    }


def unary(m: Maker) -> None:
    fits = [name for name, (_, _, since) in CALLS.items() if m.opset >= since]
    op = m.rng.choice(fits)
    types, kind, _ = CALLS[op]
    m.add(op, [m.pick(types, exact=kind == JUMPS)], kind, **some_attributes(m, op))


def common_unary(m: Maker) -> None:
    """Those that most networks have."""
    op = m.rng.choice(("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Exp", "Identity", "Sqrt", "Floor"))
    types, kind, _ = CALLS[op]
    m.add(op, [m.pick(types, exact=kind == JUMPS)], kind)


def swapped(m: Maker, a: str, b: str) -> list[str]:
    return [a, b] if m.rng.random() < 0.5 else [b, a]


def arithmetic(m: Maker) -> None:
    op = m.rng.choice(("Add", "Add", "Sub", "Mul", "Mul", "Min", "Max"))
    a = m.pick(NUMBERS)
    m.add(op, swapped(m, a, m.partner(a)))


def division(m: Maker) -> None:
    a = m.pick(NUMBERS)
    whole = not is_float(m.of(a).dtype)
    b = m.partner(a, style="positive" if whole or m.rng.random() < 0.5 else "")
    m.add("Div", [a, b])


def power(m: Maker) -> None:
    a = m.pick((*FLOATS, np.dtype(np.int32), I64))
    if m.rng.random() < 0.5:
        b = m.constant(m.rng.choice((0.0, 1.0, 2.0, 3.0, 0.5, -1.0)), m.of(a).dtype)
    else:
        b = m.partner(a, m.rng.choice((m.of(a).dtype, F32, I64)), style="positive")

    def held(base: Any, exponent: Any = None) -> bool:
        """Whether no float leaves the range of integers, where a conversion may give anything."""
        if is_float(base.dtype) or exponent is None or not is_float(exponent.dtype):
            return True
        largest = np.abs(base.astype(np.float64)).max(initial=1)
        return bool(largest ** exponent.astype(np.float64).max(initial=0) < np.iinfo(base.dtype).max / 2)

    m.add("Pow", [a, b], SMOOTH, agreed=held)


def modulo(m: Maker) -> None:
    a = m.pick(NUMBERS, exact=True)
    b = m.partner(a, exact=True, style="positive")
    m.add("Mod", [a, b], JUMPS, fmod=int(is_float(m.of(a).dtype) or m.rng.random() < 0.4))


def variadic(m: Maker) -> None:
    op = m.rng.choice(("Max", "Min", "Sum", "Mean"))
    a = m.pick(FLOATS)
    more = [m.partner(a) for _ in range(m.rng.randint(0, 3))]
    m.add(op, [a, *more], SMOOTH if op in ("Sum", "Mean") else EXACT)


def comparison(m: Maker) -> None:
    op = m.rng.choice(("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"))
    a = m.pick(NUMBERS if op != "Equal" else ALL, exact=True)
    m.add(op, swapped(m, a, m.partner(a, exact=True)), JUMPS)


def logic(m: Maker) -> None:
    a = m.pick((BOOL,))
    m.add(m.rng.choice(("And", "Or", "Xor")), swapped(m, a, m.partner(a)))


def bits(m: Maker) -> None:
    if m.rng.random() < 0.5:
        a = m.pick(INTEGERS[4:])
        b = m.partner(a, style="positive")
        m.add("BitShift", [a, b], direction=m.rng.choice(("LEFT", "RIGHT")))
    elif m.opset >= 18:
        a = m.pick(INTEGERS)
        m.add(m.rng.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor")), swapped(m, a, m.partner(a)))


def where(m: Maker) -> None:
    a = m.pick(ALL)
    condition = m.partner(a, BOOL)
    m.add("Where", [condition, *swapped(m, a, m.partner(a))])


def clip(m: Maker) -> None:
    a = m.pick(NUMBERS)
    dtype = m.of(a).dtype
    low, high = m.constant(m.rng.choice((0, 1, 2)), dtype), m.constant(m.rng.choice((3, 6, 1)), dtype)
    m.add("Clip", [a, *m.rng.choice(([low], [low, high], ["", high], ["", ""]))])


def cast(m: Maker) -> None:
    from onnx import helper

    target = m.rng.choice(ALL)
    x = m.pick(ALL, exact=not is_float(target))

    def held(array: Any) -> bool:
        """Whether an integer type holds all elements."""
        if not is_float(array.dtype) or target.kind not in "iu":
            return True
        wide, limits = array.astype(np.float64), np.iinfo(target)
        return bool(((wide > max(limits.min, -(2**31)) - 1) & (wide < min(limits.max, 2**31 - 1))).all())

    m.add(
        "Cast",
        [x],
        EXACT if is_float(target) else JUMPS,
        to=helper.np_dtype_to_tensor_dtype(target),
        agreed=held,
    )


def is_inf(m: Maker) -> None:
    x = m.pick(FLOATS[:2], exact=True)
    m.add("IsInf", [x], JUMPS, detect_negative=m.rng.randint(0, 1), detect_positive=m.rng.randint(0, 1))


def prelu(m: Maker) -> None:
    x = m.pick(FLOATS)
    slope = m.partner(x)
    if np.broadcast_shapes(m.of(x).shape, m.of(slope).shape) == m.of(x).shape:
        # ONNX's reference multiplies what is positive by 0 and the slope, its text does not.
        m.add("PRelu", [x, slope], agreed=lambda *given: is_finite(given[-1]))


# ---- along axes -----------------------------------------------------------------------------------------------


def some_axes(m: Maker, rank: int) -> list[int]:
    axes = [axis for axis in range(rank) if m.rng.random() < 0.5] or ([m.rng.randrange(rank)] if rank else [])
    m.rng.shuffle(axes)
    return [axis - rank if m.rng.random() < 0.3 else axis for axis in axes]


REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
              "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")  # fmt: skip


def reduction(m: Maker) -> None:
    op = m.rng.choice(REDUCTIONS)
    exact = op in ("ReduceMax", "ReduceMin")
    x = m.pick((*FLOATS, I64, *(INTEGERS[:6] if exact else ())))  # NumPy adds up other integers in int64
    if op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean") and not is_float(m.of(x).dtype):
        raise Dropped("rounded")
    if m.of(x).size == 0 and op != "ReduceSum":
        raise Dropped("engines differ on nothing")
    axes, keep = some_axes(m, m.of(x).ndim), m.rng.randint(0, 1)
    kind = EXACT if exact else SMOOTH
    as_input = m.opset >= (13 if op == "ReduceSum" else 18)
    choice = m.rng.random()
    if choice < 0.15:
        m.add(op, [x], kind, keepdims=keep)
    elif as_input:
        named = m.constant([] if choice < 0.25 else axes)
        m.add(
            op,
            [x, named],
            kind,
            keepdims=keep,
            **({"noop_with_empty_axes": 1} if m.rng.random() < 0.3 else {}),
        )
    elif axes:
        m.add(op, [x], kind, keepdims=keep, axes=axes)


def some_axis(m: Maker, x: str) -> int:
    rank = m.of(x).ndim
    if not rank:
        raise Dropped("no axis")
    return m.rng.randrange(-rank, rank)


def arg_extreme(m: Maker) -> None:
    x = m.pick((*FLOATS[:3], *INTEGERS), exact=True)
    axis = some_axis(m, x)
    if m.of(x).shape[axis] == 0:
        raise Dropped("nothing to choose from")
    m.add(
        m.rng.choice(("ArgMax", "ArgMin")), [x], JUMPS, axis=axis, keepdims=m.rng.randint(0, 1),
        select_last_index=m.rng.randint(0, 1), agreed=is_finite,
    )  # fmt: skip


def top_k(m: Maker) -> None:
    x = m.pick((*FLOATS[:3], *INTEGERS), exact=True)
    axis = some_axis(m, x)
    k = m.constant([m.rng.randint(0, min(m.of(x).shape[axis], 20))])
    m.add("TopK", [x, k], JUMPS, 2, axis=axis, largest=m.rng.randint(0, 1), sorted=1, agreed=is_finite)


def softmax(m: Maker) -> None:
    x = m.pick(FLOATS, (1, 2, 3, 4, 5))
    if m.opset < 13:
        raise Dropped("the reference evaluator knows the newer meaning of axis only")
    op = m.rng.choice(("Softmax", "Softmax", "LogSoftmax", "Hardmax"))
    if op == "Hardmax" and not m.values[x].exact:
        raise Dropped("a jump")
    if m.of(x).size == 0:
        raise Dropped("engines differ on nothing")
    m.add(
        op,
        [x],
        JUMPS if op == "Hardmax" else SMOOTH,
        **({} if m.rng.random() < 0.3 else {"axis": some_axis(m, x)}),
    )


def cumulative(m: Maker) -> None:
    x = m.pick((*FLOATS[:2], I64), (1, 2, 3, 4))
    axis = m.constant(some_axis(m, x))
    m.add("CumSum", [x, axis], SMOOTH, exclusive=m.rng.randint(0, 1), reverse=m.rng.randint(0, 1))


def layer_norm(m: Maker) -> None:
    x = m.pick(FLOATS[:3], (2, 3, 4))
    axis = m.rng.choice((-1, m.of(x).ndim - 1, m.of(x).ndim - 2))
    scale = m.add_leaf(m.of(x).dtype, m.of(x).shape[axis:], "normal")
    if m.opset >= 17 and m.of(x).size:
        m.add("LayerNormalization", [x, scale], SMOOTH, axis=axis)


def product(m: Maker) -> None:
    """Of float32 and float64: graphs with products of 16-bit floats compute in float32 throughout."""
    x = m.pick(FLOATS[:2], (2, 3, 4))
    shape = m.of(x).shape
    columns = m.rng.choice((1, 3, 8, 17))
    choice = m.rng.random()
    if choice < 0.6:
        lead = shape[:-2] if m.rng.random() < 0.4 else ()
        y = m.add_leaf(m.of(x).dtype, (*lead, shape[-1], columns), m.rng.choice(("small", "normal")))
        m.add("MatMul", [x, y], SMOOTH)
    elif len(shape) == 2:
        turned = m.rng.random() < 0.5
        y = m.add_leaf(m.of(x).dtype, (columns, shape[1]) if turned else (shape[1], columns), "normal")
        bias = [m.add_leaf(m.of(x).dtype, m.rng.choice(((columns,), (1, columns), (), (shape[0], 1))))]
        m.add(
            "Gemm", [x, y, *(bias if m.rng.random() < 0.6 else [])], SMOOTH, transB=int(turned),
            alpha=m.rng.choice((1.0, 0.5)), beta=m.rng.choice((1.0, 2.0)),
        )  # fmt: skip


def quantization(m: Maker) -> None:
    """There and back."""
    x = m.pick(FLOATS[:1], exact=True)
    zero = m.constant(m.rng.choice((0, 3, 100)), m.rng.choice(INTEGERS[:1] + INTEGERS[4:5]))
    scale = m.constant(m.rng.choice((0.5, 0.25, 1.0)), np.float32)
    (q,) = m.add("QuantizeLinear", [x, scale, zero], JUMPS, agreed=is_finite)
    m.add("DequantizeLinear", [q, scale, zero])


VALUES: tuple[Callable[[Maker], None], ...] = (
    unary, common_unary, common_unary, arithmetic, arithmetic, arithmetic, arithmetic, division, power, modulo,
    variadic, comparison, comparison, logic, bits, where, where, clip, cast, cast, cast, is_inf, prelu, reduction,
    reduction, arg_extreme, top_k, softmax, cumulative, layer_norm, product, quantization,
)  # fmt: skip
