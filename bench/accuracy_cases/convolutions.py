"""Convolutions of many channels, on maps that are a pixel or a few."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.accuracy_cases import Arrays, Case, drawn

FILTERS = 16


def _operands(window: int, size: int) -> Callable[[str, int], Arrays]:
    def make(distribution: str, length: int) -> Arrays:
        """x whose channels are of the distribution; weights as in products."""
        channels = length // window**2
        x = drawn(distribution, (1, size, size, channels)).transpose(0, 3, 1, 2).copy()
        if distribution in ("0.1", "whole"):
            return x, np.ones((FILTERS, channels, window, window), np.float32)
        w = np.random.default_rng(1).uniform(0.5, 1, (FILTERS, channels, window, window))
        return x, w.astype(np.float32)

    return make


def _model(arrays: Arrays) -> bytes:
    x, w = arrays
    size = x.shape[2] - w.shape[2] + 1
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, FILTERS, size, size))]
    graph = helper.make_graph([node], "convolution", inputs, outputs, [numpy_helper.from_array(w, "w")])
    opset = helper.make_opsetid("", 17)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()


def _windows(x: np.ndarray, window: int) -> np.ndarray:
    """(pixels, terms) of what each output pixel reads, in the weights' order."""
    read = np.lib.stride_tricks.sliding_window_view(x[0], (window, window), (1, 2))
    channels, height, width = read.shape[:3]
    return read.transpose(1, 2, 0, 3, 4).reshape(height * width, channels * window**2)


def _products(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    x, w = arrays
    return _windows(x, w.shape[2]), w.reshape(FILTERS, -1)


def _shaped(y: np.ndarray) -> np.ndarray:
    """(pixels, filters) as an image."""
    size = int(np.sqrt(len(y)))
    return y.T.reshape(1, FILTERS, size, size)


def _truth(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    x, w = (part.astype(np.float64) for part in _products(arrays))
    return _shaped(x @ w.T), _shaped(abs(x) @ abs(w).T)


def _numpy(arrays: Arrays) -> np.ndarray:
    x, w = _products(arrays)
    return _shaped(np.stack([[np.sum(row * filter) for filter in w] for row in x]))


def _torch(arrays: Arrays) -> np.ndarray:
    import torch

    x, w = map(torch.from_numpy, arrays)
    return torch.nn.functional.conv2d(x, w).numpy()


CASES = tuple(
    Case("convolutions", name, lengths, _operands(window, size), _model, _truth, _numpy, _torch)
    for name, lengths, window, size in (
        ("1x1 at 3x3", (4096, 65536), 1, 3),
        ("3x3 at 6x6", (18432,), 3, 6),
        ("7x7 at 7x7", (25088,), 7, 7),
    )
)
