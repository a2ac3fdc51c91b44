"""Matrix products: of several rows and of one, with B known when the model is loaded or given."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from bench.accuracy_cases import Arrays, Case, drawn


def _operands(rows: int, columns: int) -> Callable[[str, int], Arrays]:
    def make(distribution: str, length: int) -> Arrays:
        """A of the distribution; B of numbers between 1/2 and 1, or of whole ones where A has whole ones."""
        a = drawn(distribution, (rows, length))
        if distribution in ("0.1", "whole"):
            return a, np.ones((length, columns), np.float32)
        return a, np.random.default_rng(1).uniform(0.5, 1, (length, columns)).astype(np.float32)

    return make


def _model(constant: bool, turned: bool = False) -> Callable[[Arrays], bytes]:
    def make(arrays: Arrays) -> bytes:
        a, b = arrays
        shapes = {"x": a.shape, "b": b.shape}
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
        if turned:
            node = helper.make_node("Gemm", ["x", "b"], ["y"], transB=1)
        else:
            node = helper.make_node("MatMul", ["x", "b"], ["y"])
        weights = numpy_helper.from_array(np.ascontiguousarray(b.T) if turned else b, "b")
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (a.shape[0], b.shape[1]))
        graph = helper.make_graph(
            [node], "product", inputs[:1] if constant else inputs, [y], [weights] if constant else []
        )
        opset = helper.make_opsetid("", 17)
        return helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()

    return make


def _truth(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    a, b = (x.astype(np.float64) for x in arrays)
    return a @ b, abs(a) @ abs(b)


def _numpy(arrays: Arrays) -> np.ndarray:
    a, columns = arrays[0], np.ascontiguousarray(arrays[1].T)
    return np.stack([[np.sum(row * column) for column in columns] for row in a])


def _torch(arrays: Arrays) -> np.ndarray:
    import torch

    return torch.matmul(*map(torch.from_numpy, arrays)).numpy()


CASES = tuple(
    Case("products", name, lengths, _operands(rows, 16), _model(constant, turned), _truth, _numpy, _torch)
    for name, lengths, rows, constant, turned in (
        ("8 rows by 16 columns, B constant", (4096, 25088, 65536), 8, True, False),
        ("2 rows by 16 columns, B given", (65536, 1_000_000), 2, False, False),
        ("1 row by 16 columns, B given", (1_000_000,), 1, False, False),
        ("1 row by 16 columns, Gemm of B' constant", (1_000_000,), 1, True, True),
    )
)
