"""Random windowed pools against the naive loops and against PyTorch.

Known faults of peers that the generator would otherwise hit (PyTorch 2.13, ONNX Runtime 1.31; measured):

- PyTorch max_pool gives -inf, and an index outside of the plane, for a window of padding only: refused here.
- PyTorch has no integer max_pool1d, no asymmetric padding, no dilation of averages: compared with the loops only.
- PyTorch avg_pool3d refuses windows larger than the input without its padding; max_pool2d and max_pool3d limit padding
  by the undilated window.
- ONNX Runtime drops or keeps NaN by its place in the window, and gives -3.4e38 for windows of -inf.
- ONNX Runtime sizes SAME with dilation by the undilated window, and VALID with ceil_mode by the ceiling.
- The reference evaluator of ONNX crashes on 1-D MaxPool with padding, drops paddings at the end only, ignores NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cenote.functional as F
from cenote.core.errors import CenoteError, ShapeError
from cenote.core.types import BFLOAT16
from tests.functional import naive

FLOATS = (np.float64, np.float32, np.float16, BFLOAT16)
TYPES = (*FLOATS, np.int8, np.uint8, np.int16, np.int32, np.int64)
LAYOUTS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


@dataclass(frozen=True)
class Case:
    """Arguments of a pool, in the forms that functions take, and resolved."""

    x: Any
    window: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    ceil_mode: bool
    channels_last: bool

    @property
    def rank(self) -> int:
        return len(self.window)

    @property
    def geometry(self) -> tuple[Any, ...]:
        return self.window, self.stride, self.dilation, self.pads

    def call(self, stem: str, **more: Any) -> Any:
        """cenote.functional's answer, in NCHW order."""
        layout = LAYOUTS[self.rank][self.channels_last]
        x = np.moveaxis(self.x, 1, -1) if self.channels_last else self.x
        y = getattr(F, f"{stem}{self.rank}d")(
            x, kernel_size=self.window, stride=self.stride, padding=self.pads, dilation=self.dilation,
            ceil_mode=self.ceil_mode, layout=layout, **more,
        )  # fmt: skip
        if not self.channels_last:
            return y
        return tuple(np.moveaxis(v, -1, 1) for v in y) if isinstance(y, tuple) else np.moveaxis(y, -1, 1)


@st.composite
def cases(draw: Any, types: Any = TYPES, special: bool = True) -> Case:
    rank = draw(st.integers(1, 3))
    most = {1: 40, 2: 11, 3: 6}[rank]
    per_axis = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    window, stride, dilation = per_axis(1, 5), per_axis(1, 4), per_axis(1, 3)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    pads = tuple((draw(st.integers(0, r // 2)), draw(st.integers(0, r // 2))) for r in reach)
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 3)), *per_axis(1, most))
    generator = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    dtype = np.dtype(draw(st.sampled_from(types)))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        x = generator.integers(max(limits.min, -999), min(limits.max, 999), shape, endpoint=True).astype(
            dtype
        )
    else:
        x = np.round(generator.standard_normal(shape) * 4).astype(dtype)  # many ties
        if special and draw(st.booleans()):
            for value in (np.nan, np.inf, -np.inf):
                x[generator.random(shape) < 0.15] = value
    return Case(x, window, stride, dilation, pads, draw(st.booleans()), draw(st.booleans()))


def is_refused(case: Case) -> bool:
    """Whether some window does not fit or holds padding only, by the naive loops."""
    spatial = case.x.shape[2:]
    out = naive.sizes(spatial, *case.geometry, case.ceil_mode)
    if min(out) < 1:
        return True
    return any(
        all(kind != "element" for _, kind in naive.taps(spatial, position, *case.geometry))
        for position in np.ndindex(*out)
    )


@settings(max_examples=60)
@given(cases(), st.sampled_from(("propagate", "ignore")))
def test_max_pool_is_the_naive_loop(case: Case, nan: str) -> None:
    if is_refused(case):
        with pytest.raises(ShapeError):
            case.call("max_pool")
        return
    y, indices = case.call("max_pool", return_indices=True, nan=nan)
    want, places = naive.max_pool(case.x, *case.geometry, case.ceil_mode, nan)
    np.testing.assert_array_equal(indices, places)
    np.testing.assert_array_equal(y.astype(np.float64), want.astype(np.float64))
    np.testing.assert_array_equal(case.call("max_pool", nan=nan).astype(np.float64), want.astype(np.float64))


@settings(max_examples=40)
@given(cases(FLOATS), st.booleans(), st.sampled_from((None, 1, 3)))
def test_average_pool_is_the_naive_loop(case: Case, include: bool, divisor: int | None) -> None:
    if is_refused(case):
        with pytest.raises(ShapeError):
            case.call("avg_pool", count_include_pad=include)
        return
    y = case.call("avg_pool", count_include_pad=include, divisor_override=divisor)
    want = naive.average_pool(case.x, *case.geometry, case.ceil_mode, include, divisor or 0)
    close(y, want)


@settings(max_examples=30)
@given(cases(FLOATS, special=False), st.sampled_from((1.0, 2.0, 3.0, 1.5, float("inf"))))
def test_lp_pool_is_the_naive_loop(case: Case, p: float) -> None:
    if not is_refused(case):
        close(case.call("lp_pool", norm_type=p), naive.lp_pool(case.x, p, *case.geometry, case.ceil_mode))


def close(y: Any, want: Any) -> None:
    tolerance = {8: 1e-12, 4: 1e-6, 2: 1e-2 if y.dtype == BFLOAT16 else 2e-3}[y.dtype.itemsize]
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=tolerance, atol=tolerance)


@settings(max_examples=40)
@given(cases((np.float64, np.float32)), st.booleans())
def test_pytorch_agrees(case: Case, include: bool) -> None:
    torch = pytest.importorskip("torch")
    pads = tuple(min(begin, k // 2) for (begin, _), k in zip(case.pads, case.window, strict=True))
    case = Case(
        case.x, case.window, case.stride, case.dilation, tuple((p, p) for p in pads), case.ceil_mode, False
    )
    if is_refused(case):
        return
    functional, x = torch.nn.functional, torch.from_numpy(case.x)
    want = getattr(functional, f"max_pool{case.rank}d")(
        x, case.window, case.stride, pads, case.dilation, case.ceil_mode, return_indices=True
    )
    for got, wanted in zip(case.call("max_pool", return_indices=True), want, strict=True):
        np.testing.assert_array_equal(got, wanted.numpy())
    fits = all(n >= k for n, k in zip(case.x.shape[2:], case.window, strict=True))
    if max(case.dilation) == 1 and fits:
        mean = getattr(functional, f"avg_pool{case.rank}d")(
            x, case.window, case.stride, pads, case.ceil_mode, include
        )
        np.testing.assert_allclose(
            case.call("avg_pool", count_include_pad=include), mean.numpy(), rtol=1e-5, atol=1e-5
        )


@settings(max_examples=30)
@given(cases((np.float32,), special=False), st.booleans())
def test_onnxruntime_agrees_where_it_is_right(case: Case, include: bool) -> None:
    """Explicit padding without NaN; ONNX semantics, strides given."""
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    too_much = any(max(pad) >= k for pad, k in zip(case.pads, case.window, strict=True))
    if is_refused(case) or too_much:
        return
    attributes = {
        "kernel_shape": case.window, "strides": case.stride, "dilations": case.dilation,
        "pads": [begin for begin, _ in case.pads] + [end for _, end in case.pads], "ceil_mode": int(case.ceil_mode),
    }  # fmt: skip
    helper = onnx.helper
    nodes = [
        helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes),
        helper.make_node("AveragePool", ["x"], ["z"], count_include_pad=int(include), **attributes),
    ]
    values = dict.fromkeys(("y", "z"), onnx.TensorProto.FLOAT) | {"i": onnx.TensorProto.INT64}
    graph = helper.make_graph(
        nodes, "pools", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, case.x.shape)],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in values.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    maximum, mean, indices = session.run(["y", "z", "i"], {"x": case.x})
    got, places = case.call("max_pool", return_indices=True, semantics="onnx")
    np.testing.assert_array_equal(got, maximum)
    np.testing.assert_array_equal(places, indices)
    np.testing.assert_allclose(
        case.call("avg_pool", count_include_pad=include, semantics="onnx"), mean, rtol=1e-5, atol=1e-5
    )


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 6), st.integers(1, 3), st.booleans())
def test_same_padding(size: int, k: int, s: int, d: int, upper: bool) -> None:
    """ "same" is the explicit padding that the formula gives, so long as no window is empty."""
    begin, end = naive.same_pads(size, k, s, d, upper)
    x = np.arange(size, dtype=np.float64).reshape(1, 1, size)
    arguments = {"kernel_size": k, "stride": s, "dilation": d}
    word = "same" if upper else "same_lower"
    assert F.pool_output_shape(x.shape, padding=word, layout="NCL", **arguments) == (1, 1, -(-size // s))
    try:
        got = F.max_pool1d(x, padding=word, **arguments)
    except CenoteError:
        out = naive.out_size(size, k, s, d, begin, end, False)
        seen = [naive.taps((size,), (o,), (k,), (s,), (d,), [(begin, end)]) for o in range(out)]
        assert any(all(kind != "element" for _, kind in window) for window in seen)
        return
    want, _ = naive.max_pool(x, (k,), (s,), (d,), [(begin, end)])
    np.testing.assert_array_equal(got, want)
