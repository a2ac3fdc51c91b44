"""Steps that compute: elementwise with broadcasting, reductions, products, norms, recurrences, loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.sizes.maker import FLOAT, WHOLE, Axis, Maker, Shape, Unfit, Value, same

SMOOTH = (
    "Sigmoid", "Tanh", "Elu", "HardSwish", "Softplus", "Softsign", "Erf", "Mish", "Selu", "Celu", "HardSigmoid", "Sin",
)  # fmt: skip
EXACT = ("Relu", "Relu", "Abs", "Neg", "Identity", "ThresholdedRelu")


def unary(m: Maker) -> Value:
    x = m.pick()
    if m.maybe(0.4):
        return m.add(m.rng.choice(EXACT), x, x.shape, exact=True)
    how = m.rng.randrange(6)
    if how == 0:
        return m.add(
            "Clip", x, x.shape, m.constant(np.float32(-0.5)), m.constant(np.float32(1.5)), exact=True
        )
    if how == 1:
        return m.add("LeakyRelu", x, x.shape, alpha=0.1)
    if how == 2:
        if not x.exact:
            raise Unfit
        return m.add(m.rng.choice(("Floor", "Round", "Ceil", "Sign")), x, x.shape, exact=True)
    op = m.rng.choice((*SMOOTH, *(("Gelu",) if m.opset >= 20 else ())))
    return m.add(op, x, x.shape)


def joined(a: Shape, b: Shape) -> list[Axis] | None:
    """The shape of a value that is made of two by broadcasting, at every size by itself; None if there is none."""
    long, short = (a, b) if len(a) >= len(b) else (b, a)
    made = list(long)
    for place in range(1, len(short) + 1):
        p, q = long[-place], short[-place]
        if not np.all(np.equal(p, q) | np.equal(p, 1) | np.equal(q, 1)):
            return None
        if isinstance(p, int) and isinstance(q, int):
            made[-place] = max(p, q)
        elif isinstance(p, int) and p == 1:
            made[-place] = q
        elif not (isinstance(q, int) and q == 1):
            made[-place] = np.maximum(p, q)
    return made


def binary(m: Maker) -> Value:
    """Two values, or a value and a constant."""
    x = m.pick()
    op = m.rng.choice(("Add", "Add", "Sub", "Mul", "Max", "Min"))
    exact = op in ("Max", "Min")
    if m.maybe(0.25):
        last = x.shape[1] if x.rank > 1 else 1
        y = m.noise(1, *([last] if isinstance(last, int) and x.rank > 1 else [1]), *[1] * (x.rank - 2))
        return m.add(op, x, x.shape if x.rank > 1 else (x.shape[0],), y, exact=exact, grows=0.3)
    fit = [(v, made) for v in m.values if v.type == FLOAT and (made := joined(x.shape, v.shape)) is not None]
    y, made = m.rng.choice(fit)
    return m.add(op, [x, y], made, exact=exact, grows=y.growth if op == "Mul" else 0.3)


def several(m: Maker) -> Value:
    """Sum, Mean, Max or Min of three."""
    x = m.pick()
    fit = [v for v in m.values if v.type == FLOAT and (made := joined(x.shape, v.shape)) and len(made) == x.rank
           and all(map(same, made, x.shape))]  # fmt: skip
    op = m.rng.choice(("Sum", "Mean", "Max", "Min"))
    return m.add(
        op, [x, m.rng.choice(fit), m.rng.choice(fit)], x.shape, exact=op in ("Max", "Min"), grows=0.4
    )


def choose(m: Maker) -> Value:
    """Where one is greater than the other, or than a constant."""
    x = m.pick()
    if not x.exact:
        raise Unfit
    fit = [v for v in m.values if v.type == FLOAT and (made := joined(x.shape, v.shape)) and len(made) == x.rank
           and all(map(same, made, x.shape))]  # fmt: skip
    y = m.rng.choice(fit)
    test = m.node(m.rng.choice(("Greater", "LessOrEqual")), [x.name, m.constant(np.float32(0.25))])
    name = m.node("Where", [test, x.name, y.name])
    return m.made(name, x.shape, y.exact, max(x.growth, y.growth))


def prelu(m: Maker) -> Value:
    x = m.map(3, 4)
    return m.add("PRelu", x, x.shape, m.noise(x.shape[1], *[1] * (x.rank - 2)))  # type: ignore[arg-type]


def cast(m: Maker) -> Value:
    """To whole numbers and back."""
    x = m.pick()
    if not x.exact:
        raise Unfit
    name = m.node("Cast", [x.name], to=m.rng.choice((TensorProto.INT32, WHOLE, TensorProto.BOOL)))
    return m.made(m.node("Cast", [name], to=FLOAT), x.shape, True, x.growth)


def quotient(m: Maker) -> Value:
    """Divided by what is at least 1."""
    x = m.pick()
    under = m.node("Add", [m.node("Abs", [x.name]), m.floats(1)])
    if m.maybe():
        under = m.node("Sqrt", [under])
    return m.add("Div", x, x.shape if x.rank else (1,), under)


def positions(m: Maker) -> Value:
    """Range up to a size, scaled, added to a value."""
    x = m.pick(2, 3, 4)
    axis = m.rng.choice((x.rank - 1, x.rank - 1, *range(x.rank)))
    scalar = m.node("Squeeze", [m.number(x, axis).name, m.ints(0)])
    whole = m.node("Range", [m.constant(np.int64(0)), scalar, m.constant(np.int64(1))])
    reals = m.node("Mul", [m.node("Cast", [whole], to=FLOAT), m.floats(0.0625)])
    if axis < x.rank - 1:
        reals = m.node("Reshape", [reals, m.ints(-1, *[1] * (x.rank - 1 - axis))])
    return m.add("Add", x, x.shape, reals, grows=0.3)


def divided_by_size(m: Maker) -> Value:
    """A value times or divided by its own extent, as attention and means do."""
    x = m.pick(2, 3, 4)
    number = m.number(x, m.rng.randrange(x.rank))
    real = m.node("Cast", [number.name], to=FLOAT)
    real = m.node("Sqrt", [real]) if m.maybe() else real
    return m.add("Div", x, x.shape, real)


REDUCTIONS = {"ReduceSum": 1.2, "ReduceMean": 0, "ReduceMax": 0, "ReduceMin": 0, "ReduceL1": 1.2, "ReduceL2": 1.0,
              "ReduceLogSumExp": 0.6, "ReduceSumSquare": 1.6}  # fmt: skip


def reduce(m: Maker) -> Value:
    x = m.pick(2, 3, 4, where=lambda v: v.growth < 1.5)
    op = m.rng.choice(list(REDUCTIONS))
    axes = m.rng.choice(((x.rank - 1,), (x.rank - 1, x.rank - 2), (1,), (0,), tuple(range(1, x.rank))))
    axes = tuple(sorted(set(axes)))
    keep = m.maybe(0.6) or x.rank - len(axes) < 1
    shape = [1 if axis in axes else side for axis, side in enumerate(x.shape) if keep or axis not in axes]
    named = [axis - x.rank for axis in axes] if m.maybe(0.3) else axes
    return m.add(
        op,
        x,
        shape,
        m.ints(*named),
        exact=op in ("ReduceMax", "ReduceMin"),
        grows=REDUCTIONS[op],
        keepdims=int(keep),
    )


def argument(m: Maker) -> Value:
    """ArgMax or ArgMin, as floats."""
    x = m.pick(2, 3, 4)
    if not x.exact:
        raise Unfit
    axis = m.rng.randrange(x.rank)
    name = m.node(m.rng.choice(("ArgMax", "ArgMin")), [x.name], axis=axis, keepdims=1)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return m.made(m.node("Cast", [name], to=FLOAT), shape, True, 1.0)


def softmax(m: Maker) -> Value:
    x = m.pick(2, 3, 4)
    return m.add(
        m.rng.choice(("Softmax", "Softmax", "LogSoftmax")), x, x.shape, axis=m.rng.choice((-1, 1, x.rank - 1))
    )


def norm(m: Maker) -> Value:
    """BatchNormalization, InstanceNormalization, GroupNormalization, LayerNormalization, LpNormalization."""
    how = m.rng.randrange(5)
    x = m.map(3, 4)
    c = x.shape[1]
    assert isinstance(c, int)
    if how == 0:
        scale = [m.noise(c), m.noise(c), m.noise(c), m.constant(np.full(c, 0.75, np.float32))]
        return m.add("BatchNormalization", x, x.shape, *scale, grows=0.3)
    if how == 1:
        return m.add("InstanceNormalization", x, x.shape, m.noise(c), m.noise(c), epsilon=1e-2)
    if how == 2 and m.opset >= 21 and c % 2 == 0:
        return m.add("GroupNormalization", x, x.shape, m.noise(c), m.noise(c), num_groups=2, epsilon=1e-2)
    if how == 3:
        return m.add(
            "LpNormalization", m.add("Sigmoid", x, x.shape), x.shape, axis=m.rng.choice((1, -1)), p=2
        )
    last = m.pick(2, 3, 4, where=lambda v: isinstance(v.shape[-1], int))
    size = last.shape[-1]
    assert isinstance(size, int)
    return m.add("LayerNormalization", last, last.shape, m.noise(size), m.noise(size), axis=-1, epsilon=1e-2)


def matmul(m: Maker) -> Value:
    """By a constant, or of rows with each other as attention does: h by h."""
    x = m.pick(2, 3, 4)
    k = x.shape[-1]
    if isinstance(k, int) and k <= 64 and m.maybe(0.7):
        made = m.rng.choice((2, 4, 8))
        if x.rank == 2 and m.maybe():
            return m.add("Gemm", x, (x.shape[0], made), m.noise(made, k, fan=k), m.noise(made), transB=1)
        return m.add("MatMul", x, (*x.shape[:-1], made), m.noise(k, made, fan=k))
    x = m.add("Tanh", x, x.shape)
    order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = m.add("Transpose", x, [x.shape[axis] for axis in order], perm=order)
    scores = m.add("MatMul", [x, turned], (*x.shape[:-1], x.shape[-2]), grows=0.5)
    if m.maybe():
        return scores
    weights = m.add("Softmax", scores, scores.shape, axis=-1)
    return m.add("MatMul", [weights, x], x.shape)


def einsum(m: Maker) -> Value:
    x = m.pick(3, 4, where=lambda v: v.growth < 1)
    if x.rank == 4:
        n, c, _, w = x.shape
        if m.maybe():
            return m.add("Einsum", [x, x], (n, c, c), equation="nchw,ndhw->ncd", grows=1.5)
        return m.add("Einsum", x, (n, w, c), equation="nchw->nwc", grows=1.0)
    n, c, t = x.shape
    return m.add("Einsum", [x, x], (n, t, t), equation="nct,ncs->nts", grows=1.0)


def top(m: Maker) -> Value:
    """The largest few, or half of them."""
    x = m.pick(2, 3, 4)
    if not x.exact:
        raise Unfit
    axis = m.rng.randrange(x.rank)
    side = x.shape[axis]
    k: Axis
    if m.maybe():
        k = m.rng.choice((1, 2))
        count = m.ints(k)
    else:
        number = m.plus(m.over(m.number(x, axis), 2), 1)
        k, count = number.extent, number.name
    if np.any(np.less(side, k)):
        raise Unfit
    name = m.node("TopK", [x.name, count], 2, axis=axis, largest=int(m.maybe(0.7)))
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    m.fits(shape)
    m.made(name + "_1", shape, True, 1.0, WHOLE)
    return m.made(name, shape, True, x.growth)


def running(m: Maker) -> Value:
    x = m.pick(2, 3, 4, where=lambda v: v.growth < 1.5)
    axis = m.constant(np.int64(m.rng.randrange(x.rank)))
    return m.add(
        "CumSum", x, x.shape, axis, grows=0.8, reverse=int(m.maybe(0.3)), exclusive=int(m.maybe(0.2))
    )


def triangle(m: Maker) -> Value:
    x = m.pick(2, 3, 4)
    return m.add("Trilu", x, x.shape, exact=True, upper=int(m.maybe()))


def sample(m: Maker) -> Value:
    """GridSample at places that another picture's channels give, or AffineGrid of its size."""
    x, other = m.map(4), m.map(4)
    if not same(x.shape[0], other.shape[0]):
        raise Unfit
    form: dict[str, Any] = {
        "mode": "linear" if m.opset >= 20 else "bilinear", "align_corners": int(m.maybe()),
        "padding_mode": m.rng.choice(("zeros", "border", "reflection")),
    }  # fmt: skip
    shape = (*x.shape[:2], *other.shape[2:])
    m.fits(shape)
    if m.opset >= 20 and m.maybe(0.3) and not form["align_corners"]:
        turn = m.constant(np.array([[[0.8, 0.3, 0.1], [-0.2, 0.9, 0.0]]], np.float32))
        theta = m.node("Expand", [turn, m.vector(m.number(x, 0), 1, 1)])
        grid = m.node("AffineGrid", [theta, m.vector(m.extents(x, 0, 2), m.extents(other, 2, 4))])
    else:
        flow = m.node("Conv", [other.name, m.noise(2, other.shape[1], 1, 1, fan=4)])  # type: ignore[arg-type]
        grid = m.node("Transpose", [m.node("Tanh", [flow])], perm=[0, 2, 3, 1])
    return m.add("GridSample", [x], shape, grid, grows=0.1, **form)


def recurrent(m: Maker) -> Value:
    """LSTM, GRU or RNN along an open axis: (n, c, t) as (t, n, c)."""
    x = m.pick(3, where=lambda v: isinstance(v.shape[1], int) and v.shape[1] <= 8)
    n, c, t = x.shape
    assert isinstance(c, int)
    op, gates = m.rng.choice((("LSTM", 4), ("GRU", 3), ("RNN", 1)))
    hidden, both = 4, m.maybe(0.3)
    ways = 2 if both else 1
    steps = m.node("Transpose", [x.name], perm=[2, 0, 1])
    weights = [m.noise(ways, gates * hidden, c, fan=c), m.noise(ways, gates * hidden, hidden, fan=hidden)]
    name = m.node(
        op, [steps, *weights], 1, hidden_size=hidden, direction="bidirectional" if both else "forward"
    )
    shape = (t, ways, n, hidden)
    m.fits(shape)
    made = m.made(name, shape, False, 0.0)
    if both:
        return made
    return m.add(
        "Transpose", m.add("Squeeze", made, (t, n, hidden), m.ints(1)), (n, hidden, t), perm=[1, 2, 0]
    )


def loop(m: Maker) -> Value:
    """A Loop as often as an extent says, or twice."""
    x = m.pick(2, 3, 4)
    side = m.number(x, m.rng.randrange(x.rank))
    rounds = m.node("Squeeze", [side.name, m.ints(0)]) if m.maybe() else m.constant(np.int64(2))
    body = helper.make_graph(
        [
            helper.make_node("HardSigmoid", ["state"], ["bent"]),  # halves differences, if not more
            helper.make_node("Add", ["bent", x.name], ["next"]),
            helper.make_node("Identity", ["going"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("round", WHOLE, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", FLOAT, [None] * x.rank),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, [None] * x.rank),
        ],
    )
    name = m.node("Loop", [rounds, "", x.name], body=body)
    return m.made(name, x.shape, False, x.growth + 0.1)


def branch(m: Maker) -> Value:
    """An If that asks whether an extent is greater than some number."""
    x = m.pick(2, 3, 4)
    side = m.node("Squeeze", [m.number(x, m.rng.randrange(x.rank)).name, m.ints(0)])
    test = m.node("Greater", [side, m.constant(np.int64(m.rng.choice((1, 2, 6, 9))))])
    branches = {
        key: helper.make_graph(
            [helper.make_node(op, [x.name], [key])], key, [],
            [helper.make_tensor_value_info(key, FLOAT, [None] * x.rank)],
        )
        for key, op in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }  # fmt: skip
    return m.made(m.node("If", [test], **branches), x.shape, x.exact, x.growth)


NUMBERS = (
    unary, unary, unary, binary, binary, binary, several, choose, prelu, cast, quotient, positions, divided_by_size,
    reduce, reduce, argument, softmax, norm, norm, matmul, matmul, einsum, top, running, triangle, sample, recurrent,
)  # fmt: skip
NESTED = (loop, branch)
