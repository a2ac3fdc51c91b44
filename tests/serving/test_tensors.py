"""Tensors as clients send them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cenote.core.errors import InputError
from cenote.core.types import Declared
from cenote.serving.tensors import DATATYPES, array_of, described

NUMERIC = sorted(DATATYPES.keys() - {"BYTES"})


@given(
    st.data(), st.sampled_from(NUMERIC), arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
)
def test_bytes_and_numbers_give_the_array(data: st.DataObject, datatype: str, shape: tuple[int, ...]) -> None:
    x = data.draw(arrays.arrays(DATATYPES[datatype], shape))
    found = array_of("x", datatype, list(shape), raw=x.tobytes())
    assert found.dtype == x.dtype
    assert found.tobytes() == x.tobytes()
    if datatype != "FP16":  # JSON's numbers are float64; a float32 or float64 is the same after the way there
        found = array_of("x", datatype, list(shape), data=x.reshape(-1).tolist())
        assert np.array_equal(found, x, equal_nan=x.dtype.kind == "f")
        assert found.shape == x.shape


def test_large_integers_keep_every_bit() -> None:
    numbers = [1, 2**63 + 1, 2**64 - 1]  # NumPy's own choice for these is float64
    assert array_of("x", "UINT64", [3], data=numbers).tolist() == numbers


@given(st.lists(st.text(max_size=4), max_size=4))
def test_strings(texts: list[str]) -> None:
    raw = b"".join(len(each.encode()).to_bytes(4, "little") + each.encode() for each in texts)
    assert array_of("x", "BYTES", [len(texts)], raw=raw).tolist() == texts
    assert array_of("x", "BYTES", [len(texts)], data=texts).tolist() == texts


@pytest.mark.parametrize(
    ("datatype", "shape", "given_as", "message"),
    [
        ("FP33", [1], {"data": [1]}, "no datatype 'FP33'"),
        ("FP32", [2], {"data": [1]}, "1 elements for shape"),
        ("FP32", [1], {"raw": b"123"}, "cannot be read"),
        ("FP32", [2], {"raw": b"1234"}, "1 elements for shape"),
        ("FP32", [-1], {"data": [1]}, "is no shape"),
        ("FP32", [1.0], {"data": [1]}, "is no shape"),
        ("FP32", [True], {"data": [1]}, "is no shape"),
        ("FP32", [2**40, 2**40], {"raw": b""}, "0 elements for shape"),
        ("FP32", [0, 2**70], {"raw": b""}, "input 'x'"),
        ("FP32", [1], {"data": ["a"]}, "cannot be read"),
        ("FP32", [1], {"data": [None]}, "cannot be read"),
        ("FP32", [1], {"data": {"a": 1}}, "cannot be read"),
        ("FP32", [1], {"data": [1e39]}, "too large"),
        ("FP32", [2], {"data": [[1], [2, 3]]}, "cannot be read"),
        ("INT64", [1], {"data": [1.5]}, "holds float"),
        ("INT8", [1], {"data": [128]}, "not from -128 to 127"),
        ("UINT8", [1], {"data": [-1]}, "not from 0 to 255"),
        ("INT64", [1], {"data": [2**70]}, "cannot be read"),
        ("BOOL", [1], {"data": [1]}, "holds int"),
        ("BYTES", [1], {"raw": b"\x05\0\0\0abc"}, "ends behind the data"),
        ("BYTES", [1], {"raw": b"\x05\0"}, "cannot be read"),
        ("BYTES", [1], {"raw": b"\x01\0\0\0\xff"}, "cannot be read"),
        ("BYTES", [1], {"data": [1]}, "cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(datatype: str, shape: list[Any], given_as: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        array_of("x", datatype, shape, **given_as)


def test_in_the_words_of_the_protocol() -> None:
    declared = Declared("x", np.dtype(np.float32), ("n", None, 3))
    assert described(declared) == {"name": "x", "datatype": "FP32", "shape": [-1, -1, 3]}
    assert described(Declared("y", np.dtype(np.int64), None))["shape"] == [-1]


def test_any_byte_but_zero_is_true() -> None:
    found = array_of("b", "BOOL", [4], raw=bytes([0, 1, 2, 255]))
    assert found.dtype == np.bool_
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("datatype", NUMERIC)
def test_no_value_of_json_changes_its_kind(datatype: str) -> None:
    """NumPy joins kinds: `[5, True]` was read as two integers, `[True, 1]` as two floats."""
    good: dict[str, list[Any]] = {"b": [True], "i": [5], "u": [5], "f": [5, 0.5]}
    taken = good[DATATYPES[datatype].kind]
    for odd in (True, 5, 0.5, "5", None, [5], {}):
        data = [*taken, odd]
        if any(type(odd) is type(each) for each in taken):
            assert array_of("x", datatype, [len(data)], data=data).tolist() == data
        else:
            with pytest.raises(InputError, match="cannot be read"):
                array_of("x", datatype, [len(data)], data=data)
