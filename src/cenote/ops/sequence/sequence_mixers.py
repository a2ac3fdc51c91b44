"""CausalConvWithState, LinearAttention, SwiGLU, RotaryEmbedding: layers of recent sequence models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.target import Target
from cenote.core.types import FLOAT32, FLOAT64, PLAIN, Array, TensorType
from cenote.kernels.base import Call, View
from cenote.kernels.cost_model import pass_seconds
from cenote.kernels.elementwise.expression import Expression, Step
from cenote.kernels.sequence.rotary import RULE, rotary_call
from cenote.ops.base import Arrays, Lowering, Op, Sample, Types
from cenote.ops.checks import checked_indices, one_of, read, require_index, require_kind, require_same_dtype
from cenote.ops.elementwise.pointwise import Function, error_of, pointwise_lowerings
from cenote.ops.movement.index_lowerings import noted
from cenote.ops.values import narrow, seeded, wide

RULES = ("linear", "gated", "delta", "gated_delta")


@dataclass(frozen=True)
class SwiGLU(Op):
    """a * sigmoid(alpha * a) * b, of two tensors of one shape."""

    alpha: float = 1.0

    name = "swiglu"
    operands = ("a", "b")
    from_onnx = {"SwiGLU": lambda node: read(SwiGLU, node, "alpha")}

    def types(self, a: TensorType, b: TensorType) -> Types:
        require_same_dtype(self.name, require_kind(self.name, a, "f", "a"), b)
        if a.shape != b.shape:
            raise ShapeError(f"swiglu: a {a} and b {b} must have one shape")
        return (TensorType(a.dtype, a.shape),)

    def compute(self, a: Array, b: Array) -> Arrays:
        gate = wide(a)
        return (narrow(gate / (1 + np.exp(-self.alpha * gate)) * wide(b), a.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        (y,) = self.infer(*inputs)
        gate = Step("swish", (0,), FLOAT64 if y.dtype == FLOAT64 else FLOAT32, (self.alpha,))
        product = Expression(2, (gate, Step("mul", (2, 1), y.dtype)))
        yield from pointwise_lowerings(Function(product, (), (0, 1), 1e-6, 20), inputs, y, target)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        yield Sample(SwiGLU(), (seeded((2, 3), 1), seeded((2, 3), 2)))
        for dtype in (np.float64, "bfloat16"):
            yield Sample(
                SwiGLU(), (seeded((2, 9, 5), 1, np.dtype(dtype)), seeded((2, 9, 5), 2, np.dtype(dtype)))
            )
        yield Sample(SwiGLU(1.7), (seeded((5,), 1, np.float16), seeded((5,), 2, np.float16)))
        yield Sample(SwiGLU(), (seeded((0, 3), 1), seeded((0, 3), 2)))


@dataclass(frozen=True)
class CausalConvWithState(Op):
    """Depthwise convolution of x (N, C, length) with w (C, 1, taps), each output from its own and earlier
    samples.

    What came before is `past` (N, C, taps - 1), zeros without it. Outputs: the activation ("none" or
    "silu", also called "swish") of the sum plus bias (C,), and the last taps - 1 samples, the past of the
    next call.
    """

    activation: str = "none"
    outputs: int = 2

    name = "causal_conv_with_state"
    operands = ("x", "w", "bias?", "past?")
    from_onnx = {
        "CausalConvWithState": lambda node: read(CausalConvWithState, node, "activation", counted="outputs")
    }

    def types(self, x: TensorType, w: TensorType, bias: TensorType | None, past: TensorType | None) -> Types:
        one_of(self.name, "activation", self.activation, ("none", "silu", "swish"))
        dtype = require_same_dtype(self.name, require_kind(self.name, x, "f", "x"), w, bias, past)
        if x.rank != 3 or w.rank != 3 or w.shape[:2] != (x.shape[1], 1) or not w.shape[2]:
            raise ShapeError(f"{self.name}: x {x} must be (N, C, length) and w {w} (C, 1, taps)")
        state = (*x.shape[:2], w.shape[2] - 1)
        for value, wanted, what in ((bias, x.shape[1:2], "bias"), (past, state, "past")):
            if value is not None and value.shape != wanted:
                raise ShapeError(f"{self.name}: {what} {value} must have shape {list(wanted)}")
        return (TensorType(dtype, x.shape), TensorType(dtype, state))[: self.outputs]

    def compute(self, x: Array, w: Array, bias: Array | None, past: Array | None) -> Arrays:
        taps, length = w.shape[2], x.shape[2]
        before = np.zeros((*x.shape[:2], taps - 1), x.dtype) if past is None else past
        joined = np.concatenate((before, x), axis=2)
        y = np.zeros(x.shape)
        for tap in range(taps):
            y += wide(joined[:, :, tap : tap + length]) * wide(w[:, :, tap])
        if bias is not None:
            y += wide(bias)[:, None]
        if self.activation != "none":
            y = y / (1 + np.exp(-y))
        return (narrow(y, x.dtype), joined[:, :, length:])[: self.outputs]

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, w, past = seeded((2, 3, 5), 1), seeded((3, 1, 4), 2), seeded((2, 3, 3), 3)
        yield Sample(CausalConvWithState(), (x, w))
        yield Sample(CausalConvWithState("silu"), (x, w, seeded((3,), 4), past))
        yield Sample(CausalConvWithState(), (x[:, :, :1], w, None, past), "one sample")
        yield Sample(CausalConvWithState(), (x, w[:, :, :1]), "one tap")
        yield Sample(CausalConvWithState(outputs=1), (x[:0], w))


@dataclass(frozen=True)
class LinearAttention(Op):
    """Attention by a state S (batch, heads, key size, value size) that each time step updates, then reads:
    q S.

    Queries, keys and values are (batch, length, heads * size); runs of query heads share a key head. `rule`
    "linear": S += k v'; "gated": S is first multiplied by exp(decay) (one number per head, or per head and
    key); "delta": v is first replaced by beta (v - S k); "gated_delta": both. `scale` 0 means 1/sqrt(key
    size). Outputs: the result (batch, length, heads * value size) and the last state, of the past state's
    type or else the queries'.
    """

    query_heads: int
    key_heads: int
    rule: str = "gated_delta"
    scale: float = 0.0
    outputs: int = 2

    name = "linear_attention"
    operands = ("query", "key", "value", "past?", "decay?", "beta?")
    from_onnx = {
        "LinearAttention": lambda node: read(
            LinearAttention,
            node,
            "scale",
            query_heads="q_num_heads",
            key_heads="kv_num_heads",
            rule="update_rule",
            ignored=("chunk_size",),
            counted="outputs",
        )
    }

    def types(
        self,
        query: TensorType,
        key: TensorType,
        value: TensorType,
        past: TensorType | None,
        decay: TensorType | None,
        beta: TensorType | None,
    ) -> Types:
        one_of(self.name, "rule", self.rule, RULES)
        dtype = require_same_dtype(self.name, require_kind(self.name, query, "f", "query"), key, value)
        heads = (self.query_heads, self.key_heads, self.key_heads)
        fits = all(
            n > 0 and x.rank == 3 and not x.shape[2] % n
            for x, n in zip((query, key, value), heads, strict=True)
        )
        if not fits or heads[0] % heads[1] or not query.shape[:2] == key.shape[:2] == value.shape[:2]:
            raise ShapeError(
                f"{self.name}: query {query}, key {key}, value {value} do not fit {heads[:2]} heads"
            )
        (batch, length, features), keys = query.shape, key.shape[2] // heads[1]
        values = value.shape[2] // heads[1]
        if features != keys * heads[0]:
            raise ShapeError(f"{self.name}: query {query} and key {key} have heads of different size")
        for x, used, widths, what in (
            (decay, "gated" in self.rule, (heads[1], heads[1] * keys), "decay"),
            (beta, "delta" in self.rule, (heads[1], 1), "beta"),
        ):
            if (x is not None) != used:
                raise ArgumentError(f"{self.name}: rule {self.rule} {'needs' if used else 'takes no'} {what}")
            if x is not None and (x.rank != 3 or x.shape[:2] != (batch, length) or x.shape[2] not in widths):
                raise ShapeError(
                    f"{self.name}: {what} {x} must be (batch, length, {widths[0]} or {widths[1]})"
                )
        state = (batch, heads[1], keys, values)
        if past is not None and require_kind(self.name, past, "f", "past").shape != state:
            raise ShapeError(f"{self.name}: past {past} must have shape {list(state)}")
        last = TensorType(dtype if past is None else past.dtype, state)
        return (TensorType(dtype, (batch, length, heads[0] * values)), last)[: self.outputs]

    def compute(
        self,
        query: Array,
        key: Array,
        value: Array,
        past: Array | None,
        decay: Array | None,
        beta: Array | None,
    ) -> Arrays:
        types = self.declared(query, key, value, past, decay, beta)
        batch, length = query.shape[:2]
        heads, shared = self.key_heads, self.query_heads // self.key_heads
        size, out = key.shape[2] // heads, value.shape[2] // heads
        q = wide(query).reshape(batch, length, heads, shared, size)
        k, v = (wide(x).reshape(batch, length, heads, x.shape[2] // heads) for x in (key, value))
        factor = None
        if decay is not None:
            factor = np.exp(wide(decay)).reshape(batch, length, heads, decay.shape[2] // heads)
        trust = None if beta is None else wide(beta)[..., None]
        state = np.zeros((batch, heads, size, out)) if past is None else wide(past)
        y = np.zeros((batch, length, heads, shared, out))
        for time in range(length):
            if factor is not None:
                state = state * factor[:, time, :, :, None]
            new = v[:, time]
            if trust is not None:
                new = trust[:, time] * (new - np.einsum("bhkv,bhk->bhv", state, k[:, time]))
            state = state + k[:, time, :, :, None] * new[:, :, None, :]
            y[:, time] = np.einsum("bhgk,bhkv->bhgv", q[:, time], state)
        y = y.reshape(batch, length, heads * shared * out) * (self.scale or 1 / math.sqrt(max(size, 1)))
        return tuple(narrow(x, kind.dtype) for x, kind in zip((y, state), types, strict=False))

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        qkv = (seeded((2, 5, 12), 1), seeded((2, 5, 6), 2), seeded((2, 5, 8), 3))
        past, decay, beta = seeded((2, 2, 3, 4), 4), -np.abs(seeded((2, 5, 6), 5)), seeded((2, 5, 1), 6)
        yield Sample(LinearAttention(4, 2, "linear"), qkv)
        yield Sample(LinearAttention(4, 2, "gated", 0.5), (*qkv, past, decay))
        yield Sample(LinearAttention(4, 2, "delta"), (*qkv, None, None, beta))
        yield Sample(LinearAttention(4, 2), (*qkv, past, decay[:, :, :2].copy(), beta))
        yield Sample(LinearAttention(4, 2, "linear", outputs=1), tuple(x[:, :0] for x in qkv), "no steps")


@dataclass(frozen=True)
class RotaryEmbedding(Op):
    """Turns the first `turned` features (0: all) of each head, in pairs (i, i + half) or, `interleaved`,
    neighbours.

    x is (batch, heads, length, size) or, with `heads`, (batch, length, heads * size). Cosines and sines are
    (batch, length, half) or, with positions (batch, length), tables (positions, half).
    """

    heads: int = 0
    turned: int = 0
    interleaved: bool = False

    name = "rotary_embedding"
    operands = ("x", "cosines", "sines", "positions?")
    from_onnx = {
        "RotaryEmbedding": lambda node: read(
            RotaryEmbedding, node, "interleaved", heads="num_heads", turned="rotary_embedding_dim"
        )
    }

    def types(
        self, x: TensorType, cosines: TensorType, sines: TensorType, positions: TensorType | None
    ) -> Types:
        require_same_dtype(self.name, require_kind(self.name, x, "f", "x"), cosines, sines)
        if x.rank not in (3, 4) or (x.rank == 3 and (self.heads < 1 or x.shape[2] % self.heads)):
            raise ShapeError(
                f"{self.name}: {x} must be (batch, heads, length, size) or divide into {self.heads} heads"
            )
        size = x.shape[3] if x.rank == 4 else x.shape[2] // self.heads
        turned, place = self.turned or size, (x.shape[0], x.shape[2] if x.rank == 4 else x.shape[1])
        if turned % 2 or turned > size:
            raise ShapeError(f"{self.name}: cannot turn {turned} of {size} features of {x} in pairs")
        table = (cosines.shape[:1] if positions is not None else place) + (turned // 2,)
        if cosines.shape != table or sines.shape != table:
            raise ShapeError(
                f"{self.name}: cosines {cosines} and sines {sines} must have shape {list(table)}"
            )
        if positions is not None and require_index(self.name, positions, "positions").shape != place:
            raise ShapeError(f"{self.name}: positions {positions} must have shape {list(place)}")
        return (TensorType(x.dtype, x.shape),)

    def compute(self, x: Array, cosines: Array, sines: Array, positions: Array | None) -> Arrays:
        y = (
            x.transpose(0, 2, 1, 3)
            if x.ndim == 4
            else x.reshape(*x.shape[:2], self.heads, x.shape[2] // self.heads)
        )
        y = wide(y).copy()  # (batch, length, heads, size)
        if positions is not None:
            places = checked_indices(self.name, positions, cosines.shape[0])
            cosines, sines = cosines[places], sines[places]
        cosine, sine = wide(cosines)[:, :, None], wide(sines)[:, :, None]
        turned = self.turned or y.shape[3]
        half = turned // 2
        first = slice(0, turned, 2) if self.interleaved else slice(0, half)
        second = slice(1, turned, 2) if self.interleaved else slice(half, turned)
        a, b = y[..., first].copy(), y[..., second].copy()
        y[..., first], y[..., second] = cosine * a - sine * b, sine * a + cosine * b
        y = y.transpose(0, 2, 1, 3) if x.ndim == 4 else y.reshape(x.shape)
        return (narrow(y, x.dtype),)

    def lowerings(self, inputs: Sequence[TensorType | None], target: Target) -> Iterator[Lowering]:
        x, cosines, _, positions = self.arranged(inputs)
        if not x.size or not cosines.size:
            return
        heads = x.shape[1] if x.rank == 4 else self.heads
        places = x.shape[0] * (x.shape[2] if x.rank == 4 else x.shape[1])
        temporaries: tuple[TensorType, ...] = ()
        check = None
        if positions is not None:
            found, check = noted(self.name, positions, places, cosines.shape[:1], RULE)
            temporaries = (found,)

        def call(source: View, cosine: View, sine: View, *others: View) -> Call:
            index, y, row = others if temporaries else (None, others[0], None)
            half = cosine.shape[-1]
            return rotary_call(source, cosine, sine, index, y, row, heads, half, self.interleaved)

        layouts = tuple(None if each is None else PLAIN for each in inputs)
        seconds = pass_seconds(2 * x.nbytes, 4 * x.size)
        yield Lowering.of_call(
            "turned", layouts, (PLAIN,), call, seconds, error_of(1e-6, x.dtype), temporaries, check=check
        )

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        x, tables = seeded((2, 3, 5, 8)), (seeded((2, 5, 4), 1), seeded((2, 5, 4), 2))
        for interleaved in (False, True):
            yield Sample(RotaryEmbedding(interleaved=interleaved), (x, *tables))
            rows = (seeded((9, 2), 1), seeded((9, 2), 2), np.arange(10).reshape(2, 5) % 9)
            yield Sample(RotaryEmbedding(turned=4, interleaved=interleaved), (x, *rows), "positions")
        flat = x.transpose(0, 2, 1, 3).reshape(2, 5, 24)
        yield Sample(RotaryEmbedding(heads=3), (flat, *tables), "three axes")
        for dtype in (np.float32, np.float64, np.float16, "bfloat16"):
            wide_heads = (seeded((2, 3, 7, 80), 1), seeded((11, 37), 2), seeded((11, 37), 3))
            given = tuple(each.astype(np.dtype(dtype)) for each in wide_heads)
            yield Sample(
                RotaryEmbedding(turned=74), (*given, np.arange(14).reshape(2, 7) % 11 - 3), "wide heads"
            )
