"""Every activation kind: generated code against its NumPy twin, and the twins against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cenote.codegen.builder import Kernel
from cenote.codegen.values import Value
from cenote.core.target import Target
from cenote.kernels.elementwise.activations import KINDS, Activation
from tests.codegen.numbers import SPECIAL, run
from tests.targets import TARGETS

PARAMETERS = {
    "leaky_relu": (0.1, 0.0), "clip": (-0.5, 6.0), "thresholded_relu": (1.0, 0.0), "shrink": (0.5, 0.25),
    "hard_sigmoid": (0.2, 0.5), "swish": (1.702, 0.0), "elu": (1.3, 0.0), "selu": (1.6732632, 1.050701),
    "celu": (0.7, 0.0),
}  # fmt: skip


def noise() -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(0)
    parts = [generator.standard_normal(4000) * scale for scale in (0.01, 1.0, 10.0, 80.0)]
    return np.concatenate([*parts, SPECIAL]).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("kind", KINDS)
def test_emitted_code_equals_numpy(kind: str, target: Target) -> None:
    activation = Activation(kind, *PARAMETERS.get(kind, (0.0, 0.0)))

    def emit(kernel: Kernel, value: Value) -> Value:
        return activation.emit(kernel, value)

    emit.__name__ = f"activation_{kind}"
    x = noise()
    got, wanted = run(emit, [x], target), activation.apply(x.astype(np.float64))
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    with np.errstate(over="ignore"):
        rounded = wanted.astype(np.float32)
    np.testing.assert_allclose(got, rounded, rtol=3e-6, atol=3e-7)


@pytest.mark.parametrize("kind", ["thresholded_relu", "shrink"])
@pytest.mark.parametrize("alpha", [1.0, -1.0, float("nan"), float("inf"), -float("inf")])
def test_a_threshold_compares_false_with_nan(kind: str, alpha: float) -> None:
    """As ONNX defines both, and onnxruntime has them: 0 where no comparison holds."""
    activation = Activation(kind, alpha, 0.25)
    x = np.array([np.nan, -np.inf, -2, -1, -0.5, 0, 0.5, 1, 2, np.inf], np.float32)
    wanted = np.where(x > alpha, x, 0)
    if kind == "shrink":
        wanted = np.where(x < -alpha, x + 0.25, np.where(x > alpha, x - 0.25, 0))
    assert np.array_equal(activation.apply(x), wanted)

    def emit(kernel: Kernel, value: Value) -> Value:
        return activation.emit(kernel, value)

    emit.__name__ = f"{kind}_{alpha}".replace("-", "minus_")
    assert np.array_equal(run(emit, [x], TARGETS[0]), wanted)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("kind", KINDS)
def test_vectors_together_are_the_same_bits(kind: str, target: Target) -> None:
    """One wide vector, emitted as parts that go through the activation together."""
    activation, count = Activation(kind, *PARAMETERS.get(kind, (0.0, 0.0))), 3

    def together(kernel: Kernel, value: Value) -> Value:
        each = value.lanes // count
        parts = [kernel.shuffle(value, value, range(i * each, (i + 1) * each)) for i in range(count)]
        a, b, c = activation.emit_together(kernel, parts)
        low = kernel.shuffle(a, b, range(2 * each))
        return kernel.shuffle(low, kernel.shuffle(c, c, [*range(each), *[-1] * each]), range(count * each))

    def alone(kernel: Kernel, value: Value) -> Value:
        return activation.emit(kernel, value)

    together.__name__, alone.__name__ = f"together_{kind}", f"alone_{kind}"
    x = np.concatenate([np.random.default_rng(0).standard_normal(600) * 20, SPECIAL]).astype(np.float32)
    got, wanted = run(together, [x], target, lanes=count * target.lanes()), run(alone, [x], target)
    np.testing.assert_array_equal(got, wanted)


# Defined by comparisons.
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"thresholded_relu", "shrink"}))
def test_nan_stays(kind: str) -> None:
    activation = Activation(kind, *PARAMETERS.get(kind, (0.0, 0.0)))
    assert np.isnan(activation.apply(np.array([np.nan]))).all()


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="relu9"):
        Activation("relu9")


def framework_functions() -> dict[str, Callable[..., Any]]:
    functional = pytest.importorskip("torch.nn.functional")
    return {
        "relu": functional.relu, "hard_swish": functional.hardswish, "silu": functional.silu,
        "mish": functional.mish, "gelu": functional.gelu, "softplus": functional.softplus,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"), "softsign": functional.softsign,
        "selu": functional.selu, "celu": lambda x: functional.celu(x, 0.7), "elu": lambda x: functional.elu(x, 1.3),
        "leaky_relu": lambda x: functional.leaky_relu(x, 0.1), "sigmoid": lambda x: x.sigmoid(),
    }  # fmt: skip


def test_numpy_twins_equal_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(4000) * 5
    for kind, function in framework_functions().items():
        activation = Activation(kind, *PARAMETERS.get(kind, (0.0, 0.0)))
        wanted = function(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(activation.apply(x), wanted, rtol=1e-6, atol=1e-8, err_msg=kind)
