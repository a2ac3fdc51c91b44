"""Pairs of thin products: their rank, their error, and the layers that they replace."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto

from cenote.compression import low_rank
from cenote.compression.low_rank import factors, thin
from cenote.compression.network import SharedNetwork, layers
from cenote.core.types import Array
from tests.compression.reference import answers
from tests.quantization.networks import model, node, noise


def of_rank(n: int, k: int, rank: int) -> Array:
    return noise(n, rank) @ noise(rank, k)


@pytest.mark.parametrize("shape", [(150, 200), (200, 150)])
def test_factors_have_the_least_rank(shape: tuple[int, int]) -> None:
    matrix = of_rank(*shape, 9)
    pair = factors(matrix, 1e-3)
    assert pair is not None
    assert pair[0].shape == (shape[0], 9)
    assert np.linalg.norm(pair[0] @ pair[1] - matrix) < 1e-3 * np.linalg.norm(matrix)
    assert factors(noise(*shape), 1e-3) is None, "nothing is gained"


def test_large_matrices_are_sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(low_rank, "_WHOLE", 64)
    matrix = of_rank(150, 200, 9)
    pair = factors(matrix, 1e-3)
    assert pair is not None
    assert pair[0].shape == (150, 9)
    assert np.linalg.norm(pair[0] @ pair[1] - matrix) < 1e-3 * np.linalg.norm(matrix)


def networks() -> dict[str, tuple[ModelProto, tuple[int, ...]]]:
    w = of_rank(130, 160, 7)
    window = w.reshape(130, 160, 1, 1)
    strided = node("Conv", "x w b", "y", strides=[2, 2], pads=[1, 1, 0, 0], kernel_shape=[1, 1])
    constants = {"w": w, "b": noise(130)}
    return {
        "Gemm": (
            model([node("Gemm", "x w b", "y", transB=1)], {"x": [3, 160]}, "y", constants),
            (3, 160),
        ),
        "MatMul": (
            model([node("MatMul", "x w", "y")], {"x": [2, 3, 160]}, "y", {"w": w.T.copy()}),
            (2, 3, 160),
        ),
        "Conv": (model([strided], {"x": [1, 160, 4, 5]}, "y", {**constants, "w": window}), (1, 160, 4, 5)),
    }


@pytest.mark.parametrize("name", ["Gemm", "MatMul", "Conv"])
def test_a_layer_becomes_two(name: str) -> None:
    made, shape = networks()[name]
    before, x = SharedNetwork.of(made), noise(*shape)
    after = thin(before, next(layers(before)), 1e-3)
    assert after is not None
    assert [each.op_type for each in after.nodes] == [name, name]
    assert after.nbytes < before.nbytes / 4
    wanted = answers(before, x)
    np.testing.assert_allclose(answers(after, x), wanted, rtol=0, atol=1e-3 * np.abs(wanted).max())


def test_grouped_and_wide_windows_stay() -> None:
    grouped = node("Conv", "x w", "y", group=2)
    w = of_rank(130, 160, 7).reshape(130, 160, 1, 1)
    network = SharedNetwork.of(model([grouped], {"x": [1, 320, 2, 2]}, "y", {"w": w}))
    assert thin(network, next(layers(network)), 1e-3) is None
    wide = np.tile(w, (1, 1, 3, 3))
    network = SharedNetwork.of(model([node("Conv", "x w", "y")], {"x": [1, 160, 4, 4]}, "y", {"w": wide}))
    assert thin(network, next(layers(network)), 1e-3) is None
