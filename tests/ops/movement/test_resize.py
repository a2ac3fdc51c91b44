"""Where Resize reads: the places of ONNX Runtime, PyTorch and TensorFlow, which decide them in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from cenote import functional
from cenote.core.errors import ArgumentError
from cenote.core.types import TensorType
from cenote.frontends.onnx import load_onnx
from cenote.ops.movement.resize import Resize

SCALES = (0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9, 1.1, 1.2, 1.3, 1.4, 1.5, 1.7, 2.0, 2.5, 3.0, 3.3)

# (extent, scale, coordinates, nearest mode, place, element): what ONNX Runtime 1.31.1 gives
RECORDED = [
    (1024, 0.3, "asymmetric", "floor", 3, 10),  # 3 / 0.3f is 9.9999996, in float32 10
    (1024, 0.3, "asymmetric", "floor", 6, 20),
    (25, 0.3, "half_pixel", "round_prefer_ceil", 4, 15),  # 14.499999 counts as a tie
    # The resized extent is not quite 194.
    (
        188,
        194 / 188,
        "half_pixel_symmetric",
        "round_prefer_floor",
        48,
        47,
    ),
    (43, 1.4, "half_pixel_symmetric", "round_prefer_ceil", 5, 4),
    (55, 1.3, "pytorch_half_pixel", "round_prefer_floor", 19, 14),  # so does 14.500001
]


@pytest.mark.parametrize(("extent", "scale", "where", "rounding", "place", "element"), RECORDED)
def test_recorded(extent: int, scale: float, where: str, rounding: str, place: int, element: int) -> None:
    op = Resize("nearest", where, rounding, scales=(float(np.float32(scale)),))
    assert op.reference(np.arange(extent))[0][place] == element


def test_sizes_that_stay() -> None:
    """1.2 times 3 is 3: ONNX Runtime copies, PyTorch copies by linear filters alone."""
    x = np.arange(3, dtype=np.float32)
    scales = (float(np.float32(1.2)),)
    for mode in ("nearest", "linear"):
        assert Resize(mode, "asymmetric", "floor", scales=scales).reference(x)[0].tolist() == [0, 1, 2]
    assert functional.interpolate(x[None, None], None, 1.2).tolist() == [[[0, 0, 1]]]
    assert functional.interpolate(x[None, None], None, 1.2, "linear").tolist() == [[[0, 1, 2]]]


def test_opset_10_rounds_up_where_it_shrinks() -> None:
    """ONNX's own example of that opset."""
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)
    model = onnx_model(
        10, ["x", "scales"], {"scales": np.array([1, 1, 0.6, 0.6], np.float32)}, x.shape, mode="nearest"
    )
    assert ours(model, x).tolist() == [[[[1, 3]]]]


@settings(max_examples=60)
@given(st.integers(1, 200), st.sampled_from(SCALES) | st.integers(1, 300), st.data())
def test_onnxruntime(extent: int, by: float, data: Any) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    mode = data.draw(st.sampled_from(("nearest", "linear", "cubic")))
    where = data.draw(
        st.sampled_from(
            ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")
        )
    )
    rounding = data.draw(st.sampled_from(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")))
    scaled = isinstance(by, float)
    # The corners of fractional scales are by rounded sizes there, and by the scales in ONNX's own data.
    assume(not scaled or (where != "align_corners" and int(np.float32(by) * extent) >= 1))
    given = {"scales": np.array([1, 1, by, 1], np.float32)} if scaled else {"sizes": np.array([1, 1, by, 2])}
    x = np.arange(2 * extent, dtype=np.float32).reshape(1, 1, extent, 2)
    model = onnx_model(
        19, ["x", "", "scales"] if scaled else ["x", "", "", "sizes"], given, x.shape, mode=mode,
        coordinate_transformation_mode=where, nearest_mode=rounding,
    )  # fmt: skip
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": x})
    np.testing.assert_allclose(
        ours(model, x), theirs, rtol=0, atol=0 if mode == "nearest" else 3e-6 * x.max()
    )


@settings(max_examples=80)
@given(
    st.integers(1, 200), st.sampled_from(SCALES) | st.integers(1, 300),
    st.sampled_from(("nearest", "nearest-exact", "linear")), st.sampled_from((np.float32, np.float64, np.uint8)),
)  # fmt: skip
def test_torch(extent: int, by: float, mode: str, dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    size, scale = (None, by) if isinstance(by, float) else (by, None)
    assume(scale is None or int(extent * scale) >= 1)
    assume(mode != "linear" or dtype != np.uint8)
    x = np.arange(extent).astype(dtype)[None, None]
    theirs = torch.nn.functional.interpolate(torch.from_numpy(x), size, scale, mode).numpy()
    bound = {np.float32: 1e-7, np.float64: 1e-15}.get(dtype, 0.0) if mode == "linear" else 0.0
    made = functional.interpolate(x, size, scale, mode)
    np.testing.assert_allclose(made.astype(float), theirs.astype(float), rtol=0, atol=bound * extent)


@settings(max_examples=60)
@given(st.integers(2, 300), st.integers(2, 300), st.sampled_from(("legacy", "half", "corners")))
def test_tensorflow(extent: int, size: int, kind: str) -> None:
    """TensorFlow and TFLite in their own words: a scale of float32, times the index."""
    corners = kind == "corners"
    scale = (
        np.float32(extent - 1) / np.float32(size - 1) if corners else np.float32(extent) / np.float32(size)
    )
    index = np.arange(size, dtype=np.float32)
    place = (index + np.float32(0.5 if kind == "half" else 0)) * scale
    chosen = np.floor(place.astype(float) + 0.5) if corners else np.floor(place)
    where = {"legacy": "asymmetric", "half": "tf_half_pixel_for_nn", "corners": "align_corners"}[kind]
    op = Resize("nearest", where, "round_prefer_ceil" if corners else "floor", sizes=(size,), by_step=True)
    made = op.reference(np.arange(extent))[0]
    assert made.tolist() == np.minimum(chosen, extent - 1).astype(int).tolist()


def onnx_model(
    opset: int, inputs: list[str], constants: dict[str, Any], shape: tuple[int, ...], **attributes: Any
) -> bytes:
    """One Resize."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Resize", inputs, ["y"], **attributes)], "resize", [info("x", TensorProto.FLOAT, shape)],
        [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    content: bytes = model.SerializeToString()
    return content


def ours(model: bytes, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What the operator's reference gives."""
    (node,) = load_onnx(model).graph.nodes
    return node.op.reference(x)[0]


@pytest.mark.parametrize("scale", [0.5, 2.0, 3e38, 1e300])
def test_an_empty_axis_stays_empty_at_any_scale(scale: float) -> None:
    """No size is a product of 0 and an infinity; NumPy's warnings are errors here."""
    (y,) = Resize("linear", scales=(1.0, scale)).infer(TensorType.of(np.float32, (2, 0)))
    assert y.shape == (2, 0)
    if scale > 1e30:
        with pytest.raises(ArgumentError, match="of 3 elements gives"):
            Resize("linear", scales=(1.0, scale)).infer(TensorType.of(np.float32, (2, 3)))
