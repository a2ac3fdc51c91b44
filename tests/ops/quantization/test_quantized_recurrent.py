"""An LSTM of bytes as a kernel: beside its reference, at any number of samples, threads and sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import cenote
from cenote.core.errors import CenoteError
from cenote.core.types import Array
from cenote.ops.quantization.quantized_recurrent import DynamicQuantizeLSTM

RANDOM = np.random.default_rng(28)
FEATURES = 9


def constants(directions: int, hidden: int, dtype: type, zero: int) -> dict[str, Array]:
    """Weights that use all bytes, their scales and zero points, and biases."""
    limits, size = np.iinfo(dtype), (directions, 4 * hidden)
    return {
        "w": RANDOM.integers(limits.min, limits.max + 1, (directions, FEATURES, 4 * hidden)).astype(dtype),
        "r": RANDOM.integers(limits.min, limits.max + 1, (directions, hidden, 4 * hidden)).astype(dtype),
        "b": RANDOM.standard_normal((directions, 8 * hidden)).astype(np.float32),
        "s": (RANDOM.random(size) * 0.01 / hidden**0.5).astype(np.float32),
        "z": np.full(size, zero, dtype),
    }


def model(
    made: dict[str, Array],
    x: Array,
    direction: str,
    hidden: int,
    open_sizes: bool = False,
    more: dict[str, Array] | None = None,
) -> bytes:
    """A layer; `more`: further inputs, lengths (l), first states (f) and cells (g)."""
    more = more or {}
    optional = [name if name in more else "" for name in "lfg"]
    names = ["x", "w", "r", "b", *optional, "", "s", "z", "s", "z"]
    node = helper.make_node(
        "DynamicQuantizeLSTM",
        names,
        ["y", "h", "c"],
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
    )
    shape = ("steps", "samples", FEATURES) if open_sizes else x.shape
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape),
            *(
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim
                )
                for name, value in more.items()
            ),
        ],
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "yhc"],
        [numpy_helper.from_array(value, name) for name, value in made.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    return content


def reference(made: dict[str, Array], x: Array, direction: str, hidden: int) -> Array:
    op = DynamicQuantizeLSTM(direction, hidden=hidden)
    scale = (made["s"], made["z"])
    return op.compute(x, made["w"], made["r"], made["b"], None, None, None, None, *scale, *scale)[0]


def close(y: Array, want: Array) -> None:
    """Equal but for states between two bytes, which may become either, and what follows from them."""
    apart = np.abs(y - want)
    assert np.median(apart) < 1e-6
    assert apart.max() < 3e-3


@pytest.mark.parametrize(
    ("dtype", "zero"), [(np.int8, 0), (np.uint8, 128), (np.uint8, 0), (np.uint8, 255), (np.int8, -128)]
)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 40), (3, 17), (6, 33)])
def test_a_kernel_computes_it(batch: int, hidden: int, dtype: type, zero: int) -> None:
    direction = ("forward", "reverse", "bidirectional")[batch % 3]
    made = constants(2 if batch % 3 == 2 else 1, hidden, dtype, zero)
    x = RANDOM.standard_normal((3, batch, FEATURES)).astype(np.float32)
    loaded = cenote.load(model(made, x, direction, hidden))
    assert {step.algorithm for step in loaded.plan.describe().steps} == {"byte_steps"}
    y, last, _ = loaded(x)
    close(np.asarray(y), reference(made, x, direction, hidden))
    np.testing.assert_array_equal(last[0], y[0 if direction == "reverse" else -1, 0])


def with_lengths(lengths: list[int], directions: int, hidden: int, states: bool) -> dict[str, Array]:
    more = {"l": np.array(lengths, np.int32)}
    if states:
        more |= {
            name: RANDOM.standard_normal((directions, len(lengths), hidden)).astype(np.float32)
            for name in "fg"
        }
    return more


@pytest.mark.parametrize(
    ("lengths", "direction", "hidden", "states"),
    [
        ([4], "reverse", 40, True),
        ([5, 2, 0], "bidirectional", 17, True),
        ([3, 1, 2, 3, 0, 2], "forward", 33, False),
        ([6, 1, 2, 3, 5, 2], "reverse", 20, True),
        ([0, 0], "bidirectional", 20, True),
    ],
)
def test_samples_of_several_lengths(lengths: list[int], direction: str, hidden: int, states: bool) -> None:
    """What lies behind the longest sample is in no range, what lies behind another is."""
    directions = 2 if direction == "bidirectional" else 1
    made = constants(directions, hidden, np.uint8, 119)
    x = RANDOM.standard_normal((6, len(lengths), FEATURES)).astype(np.float32)
    x[max(lengths) :] = np.nan
    more = with_lengths(lengths, directions, hidden, states)
    op, scale = DynamicQuantizeLSTM(direction, hidden=hidden, outputs=3), (made["s"], made["z"])
    first = [more.get(name) for name in "fg"]
    want = op.compute(x, made["w"], made["r"], made["b"], more["l"], *first, None, *scale, *scale)
    for threads, opened in ((1, False), (2, True)):
        loaded = cenote.load(model(made, x, direction, hidden, opened, more), threads=threads)
        for found, wanted in zip(loaded.run({"x": x, **more}).values(), want, strict=True):
            close(np.asarray(found), wanted)
        kinds = {step.algorithm for step in loaded.plan.describe().steps if step.kind != "check"}
        assert kinds == {"byte_steps"}


@pytest.mark.parametrize("wrong", [-1, 4])
def test_a_length_out_of_range_is_an_error(wrong: int) -> None:
    more = with_lengths([2, wrong], 1, 20, states=False)
    loaded = cenote.load(model(constants(1, 20, np.int8, 0), given(), "reverse", 20, more=more))
    with pytest.raises(CenoteError, match=f"a length of {wrong} is not within 0 to 3"):
        loaded.run({"x": given(), **more})


def test_bits_do_not_depend_on_threads_or_on_what_is_known_of_the_sizes() -> None:
    made, x = constants(2, 40, np.int8, 3), RANDOM.standard_normal((5, 6, FEATURES)).astype(np.float32)
    fixed = cenote.load(model(made, x, "bidirectional", 40), threads=1)(x)[0]
    opened = cenote.load(model(made, x, "bidirectional", 40, open_sizes=True), threads=2)
    np.testing.assert_array_equal(opened(x)[0], fixed)
    part = np.ascontiguousarray(x[:2, :3])
    close(np.asarray(opened(part)[0]), reference(made, part, "bidirectional", 40))


def test_what_is_not_a_number_is_seen() -> None:
    """A NaN of one sample is in the range that all are rounded by."""
    made, x = constants(1, 20, np.int8, 0), RANDOM.standard_normal((3, 2, FEATURES)).astype(np.float32)
    x[1, 0, 3] = np.nan
    y = np.asarray(cenote.load(model(made, x, "forward", 20))(x)[0])
    np.testing.assert_array_equal(np.isnan(y), np.isnan(reference(made, x, "forward", 20)))
    assert np.isnan(y).all()


def given(steps: int = 3, samples: int = 2) -> Array:
    return RANDOM.standard_normal((steps, samples, FEATURES)).astype(np.float32)


@pytest.mark.parametrize(
    ("wrong", "seen"),
    [
        ({"z": np.zeros((1, 80), np.uint8)}, "different types"),
        ({"z": np.zeros((1, 80), np.int32)}, "different types"),
        ({"z": np.zeros((1, 79), np.int8)}, r"i8\[1,79\] must have one number per direction"),
        ({"s": np.ones((1, 3), np.float32)}, r"f32\[1,3\] must have one number per direction"),
        ({"s": np.float32(0.1)}, r"f32\[\] must have one number"),
        ({"s": np.ones((1, 80))}, r"f64\[1,80\] must be float32"),
        ({"w": np.ones((1, FEATURES, 80), np.int16)}, "'w' has type int16"),
        ({"r": np.ones((1, 20, 80), np.float32)}, "'r' has type float32"),
        ({"w": np.ones((FEATURES, 80), np.int8)}, "three axes"),
        ({"w": np.ones((1, FEATURES + 1, 80), np.int8)}, "must have shape"),
        ({"r": np.ones((1, 19, 80), np.int8)}, "hidden size 20"),
        ({"b": np.ones((1, 80), np.float32)}, "bias"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Array], seen: str) -> None:
    made = constants(1, 20, np.int8, 0) | wrong
    with pytest.raises(CenoteError, match=seen) as raised:
        cenote.load(model(made, given(), "forward", 20))
    assert "dynamic_quantize_lstm" in str(raised.value)
    assert "-> y" in str(raised.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("scale", [0.0, -0.01, 1e-45, 1e30, np.inf, np.nan, None])
@pytest.mark.parametrize("factor", [1.0, 0.0, 1e-42, 1e30])
def test_odd_scales_and_odd_x(scale: float | None, factor: float) -> None:
    """None: one column's alone is not a number. Of 400 draws of x around 1e30 four have a sum of bytes that is 0: the
    kernel finds 0, and the reference, which adds floats, a rest of some 1e22. This draw has none."""
    made, x = constants(1, 20, np.int8, 0), given() * np.float32(factor)
    made["s"][:, 7 if scale is None else slice(None)] = np.nan if scale is None else scale
    y, want = np.asarray(cenote.load(model(made, x, "forward", 20))(x)[0]), reference(made, x, "forward", 20)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(want))
    close(np.nan_to_num(y), np.nan_to_num(want))


@pytest.mark.parametrize(("dtype", "ends"), [(np.int8, (127, -128)), (np.uint8, (255, 0))])
def test_sums_of_nothing_but_the_largest_bytes(dtype: type, ends: tuple[int, int]) -> None:
    made, x = constants(1, 40, dtype, 0), np.abs(given()) * np.float32(100)
    for end in ends:
        made |= {name: np.full_like(made[name], end) for name in "wr"}
        close(np.asarray(cenote.load(model(made, x, "forward", 40))(x)[0]), reference(made, x, "forward", 40))


@pytest.mark.parametrize(("steps", "samples"), [(0, 2), (3, 0)])
def test_no_steps_and_no_samples(steps: int, samples: int) -> None:
    x = given(steps, samples)
    y = np.asarray(cenote.load(model(constants(1, 20, np.int8, 0), x, "forward", 20))(x)[0])
    assert y.shape == (steps, 1, samples, 20)
