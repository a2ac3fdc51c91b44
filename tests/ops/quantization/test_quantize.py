"""Casts and quantisation: rounding, saturation, and the types smaller than a byte."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from cenote.core.errors import UnsupportedError
from cenote.ops.checks import dtype_from_code
from cenote.ops.elementwise.cast import Cast
from cenote.ops.quantization.quantize import DynamicQuantizeLinear, QuantizeLinear
from cenote.ops.quantization.quantized_linear import QLinearConv
from cenote.ops.values import narrow, seeded


def test_quantization_rounds_halves_to_even_before_the_zero_point() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, 1e30, -np.inf, np.nan], np.float32)
    (y,) = QuantizeLinear().reference(x, np.array(1, np.float32), np.array(3, np.uint8))
    assert y.tolist() == [3, 5, 5, 3, 255, 0, 3]


def test_dynamic_quantization_reaches_both_ends() -> None:
    y, scale, zero = DynamicQuantizeLinear().reference(np.array([-1, 0, 3], np.float32))
    assert y.tolist() == [0, 64, 255]
    assert zero == 64
    assert scale == np.float32(4 / 255)


def test_quantized_convolution_is_the_float_one_rounded() -> None:
    x, w = seeded((1, 2, 5, 5), 1, np.uint8), seeded((3, 2, 3, 3), 2, np.int8)
    scales = np.array([0.02, 0.05, 0.1], np.float32)
    inputs = (
        x,
        np.float32(0.5),
        np.uint8(4),
        w,
        scales,
        np.array([0, 1, -2], np.int8),
        np.float32(0.3),
        np.uint8(7),
    )
    (y,) = QLinearConv().reference(*map(np.asarray, inputs), np.array([5, -5, 0], np.int32))
    wanted = np.zeros((1, 3, 3, 3))
    for m, r, s in np.ndindex(3, 3, 3):
        part = (x[0, :, r : r + 3, s : s + 3].astype(int) - 4) * (w[m].astype(int) - int(inputs[5][m]))
        real = (part.sum() + [5, -5, 0][m]) * 0.5 * float(scales[m])
        wanted[0, m, r, s] = np.clip(np.rint(real / float(np.float32(0.3))) + 7, 0, 255)
    np.testing.assert_array_equal(y, wanted)


def test_casts_follow_the_tables_of_onnx() -> None:
    special = np.array([np.inf, -np.inf, np.nan, 1e9, -1e9, 0.1], np.float32)
    for name, finite, loose in [
        ("float8_e4m3fn", 448, np.nan),
        ("float8_e4m3fnuz", 240, np.nan),
        ("float8_e5m2", 57344, np.inf),
        ("float8_e5m2fnuz", 57344, np.nan),
    ]:
        dtype = np.dtype(getattr(ml_dtypes, name))
        (bounded,) = Cast(dtype).reference(special)
        (free,) = Cast(dtype, saturate=False).reference(special)
        got = bounded.astype(np.float64)
        np.testing.assert_array_equal(got[:5], [finite, -finite, np.nan, finite, -finite])
        np.testing.assert_array_equal(free.astype(np.float64)[[0, 3]], [loose, loose])
        assert got[5] == free.astype(np.float64)[5] != 0


@pytest.mark.parametrize("target", ["int4", "uint4", "int2", "uint2"])
def test_casts_to_small_integers_keep_the_low_bits(target: str) -> None:
    (y,) = Cast(np.dtype(getattr(ml_dtypes, target))).reference(np.arange(-20, 20, dtype=np.int32))
    bits = int(target[-1])
    values = y.astype(np.int8).astype(int)
    assert (values % 2**bits == np.arange(-20, 20) % 2**bits).all()
    assert values.min() == (0 if target[0] == "u" else -(2 ** (bits - 1)))


def test_every_onnx_type_code_has_its_dtype() -> None:
    onnx = pytest.importorskip("onnx")
    for code in range(1, 27):
        wanted = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
        assert dtype_from_code("cast", code) == wanted
    for code in (0, -1, 99):
        with pytest.raises(UnsupportedError):
            dtype_from_code("cast", code)


def test_bfloat16_is_rounded_once() -> None:
    """Just off the middle of two neighbours: rounding to float32 first would land on the middle, and then go wrong."""
    dtype = np.dtype(ml_dtypes.bfloat16)
    neighbours = np.arange(0x7F80, dtype=np.uint16).view(dtype).astype(np.float64)
    middle = (neighbours[:-1] + neighbours[1:]) / 2
    for function in (lambda x: narrow(x, dtype), lambda x: Cast(dtype).reference(x)[0]):
        np.testing.assert_array_equal(
            function(np.nextafter(middle, np.inf)).astype(np.float64), neighbours[1:]
        )
        np.testing.assert_array_equal(
            function(np.nextafter(middle, -np.inf)).astype(np.float64), neighbours[:-1]
        )
    special = np.array([np.inf, -np.inf, 1e300, -0.0])
    np.testing.assert_array_equal(narrow(special, dtype).astype(np.float64), [np.inf, -np.inf, np.inf, -0.0])
    assert np.isnan(narrow(np.array(np.nan), dtype).astype(np.float64))
