"""Small work, where the call itself counts: functions on small arrays, and a LeNet. `python -m bench.calls`

The first table has times of one call in microseconds: by a builtin that knows the call, through Python alone (what
other interpreters get), and NumPy's own function. The second has a LeNet called on one thread, by several Python
threads at once, and by tasks of an event loop, in calls per second. Each figure is the best of many slices, which take
turns.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import cenote
import cenote.functional as F
from bench.callers import slice_of
from cenote.core.types import Array
from cenote.functional import callers
from cenote.kernels.builtin import Builtin

Call = Callable[[], Any]
_SLICE = 2e-3  # seconds


def cases() -> dict[str, tuple[Call, Call]]:
    """Calls of Cenote and of NumPy by name."""
    rng = np.random.default_rng(0)

    def noise(*shape: int) -> Array:
        made: Array = rng.standard_normal(shape).astype(np.float32)
        return made

    x, picture, out = noise(16), noise(1, 1, 8, 8), np.empty(16, np.float32)
    made: dict[str, tuple[Call, Call]] = {
        "relu, 16": (lambda: F.relu(x), lambda: np.maximum(x, 0)),
        "relu, 16, out": (lambda: F.relu(x, out=out), lambda: np.maximum(x, 0, out=out)),
        "add, 16": (lambda: F.add(x, x), lambda: np.add(x, x)),
        "add a number, 16": (lambda: F.add(x, 2.5), lambda: np.add(x, 2.5)),
        "max_pool2d, 8x8": (
            lambda: F.max_pool2d(picture, 2),
            lambda: picture.reshape(1, 1, 4, 2, 4, 2).max((3, 5)),
        ),
        "max_pool2d with indices, 8x8": (
            lambda: F.max_pool2d(picture, 2, return_indices=True),
            lambda: picture.reshape(16, 4).argmax(1),
        ),
    }
    for size in (8, 32, 64, 128, 256):
        a, b = noise(size, size), noise(size, size)
        made[f"matmul, {size}, T=1"] = product(a, b, 1)
        made[f"matmul, {size}, b.T, T=1"] = product(a, b.T, 1)
        if size > 64:
            made[f"matmul, {size}, T=2"] = product(a, b, 2)
    made["matmul, 8 of 32, T=1"] = product(noise(8, 32, 32), noise(8, 32, 32), 1)
    return made


def product(a: Array, b: Array, threads: int) -> tuple[Call, Call]:
    """A matrix product by Cenote and by NumPy."""
    return lambda: F.matmul(a, b, threads=threads), lambda: np.matmul(a, b)


def microseconds(function: Call, count: int) -> float:
    """Time of a call within a slice of so many."""
    begin = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - begin) / count * 1e6


def table(names: str, rounds: int) -> None:
    print("| call | builtin, us | Python, us | NumPy, us | NumPy / builtin |\n|---|---:|---:|---:|---:|")
    possible = Builtin.is_possible
    for name, (ours, numpys) in cases().items():
        if names not in name:
            continue
        best = [float("inf")] * 3
        count = max(5, int(_SLICE * 1e6 / microseconds(ours, 5)))
        for _ in range(rounds):
            for place, function in enumerate((ours, ours, numpys)):
                callers.forget()
                with mock.patch.object(Builtin, "is_possible", (lambda: False) if place == 1 else possible):
                    for _ in range(3):
                        function()
                    best[place] = min(best[place], microseconds(function, count))
        print(f"| {name} | {best[0]:.2f} | {best[1]:.2f} | {best[2]:.2f} | {best[2] / best[0]:.2f} |")


def lenet() -> bytes:
    """LeNet-5 on 28x28 pictures, with seeded weights."""
    rng = np.random.default_rng(0)
    shapes = {"c1": (6, 1, 5, 5), "c2": (16, 6, 5, 5), "f1": (120, 400), "f2": (84, 120), "f3": (10, 84)}
    weights = []
    for name, shape in shapes.items():
        scaled = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        weights.append(numpy_helper.from_array(scaled.astype(np.float32), name))
        weights.append(numpy_helper.from_array(rng.random(shape[:1]).astype(np.float32), f"{name}_bias"))
    nodes, last = [], "x"
    for name, pad in (("c1", 2), ("c2", 0)):
        nodes += [
            helper.make_node("Conv", [last, name, f"{name}_bias"], [f"{name}_y"], pads=[pad] * 4),
            helper.make_node("Relu", [f"{name}_y"], [f"{name}_r"]),
            helper.make_node("MaxPool", [f"{name}_r"], [f"{name}_p"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
        last = f"{name}_p"
    nodes.append(helper.make_node("Flatten", [last], ["flat"]))
    last = "flat"
    for name in ("f1", "f2", "f3"):
        nodes.append(helper.make_node("Gemm", [last, name, f"{name}_bias"], [f"{name}_y"], transB=1))
        last = f"{name}_y"
        if name != "f3":
            nodes.append(helper.make_node("Relu", [last], [f"{name}_r"]))
            last = f"{name}_r"
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 28, 28]),
        helper.make_tensor_value_info(last, TensorProto.FLOAT, [1, 10]),
    ]
    graph = helper.make_graph(nodes, "lenet", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def tasks(model: cenote.Model, feed: list[np.ndarray], count: int, seconds: float, in_threads: bool) -> float:
    """Calls per second of so many tasks that await the model, or calls in threads of the event loop."""
    (name,) = (each.name for each in model.inputs)

    async def one(until: float) -> int:
        calls = 0
        while time.perf_counter() < until:
            if in_threads:
                await asyncio.to_thread(model, feed[0])
            else:
                await model.async_run({name: feed[0]})
            calls += 1
        return calls

    async def every() -> int:
        until = time.perf_counter() + seconds
        return sum(await asyncio.gather(*[one(until) for _ in range(count)]))

    return asyncio.run(every()) / seconds


def models(rounds: int) -> None:
    content = lenet()
    model = cenote.load(content, threads=1)
    feed = [np.random.default_rng(0).random((1, 1, 28, 28), np.float32)]
    for _ in range(50):
        model(*feed)
    least = min(microseconds(lambda: model(*feed), 100) for _ in range(rounds))
    line = f"\nLeNet, T=1: {least:.1f} us a call"
    try:
        import onnxruntime
    except ImportError:
        print(line)
    else:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        peer = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        theirs = min(microseconds(lambda: peer.run(None, {"x": feed[0]}), 100) for _ in range(rounds))
        print(f"{line}, onnxruntime {theirs:.1f}")
    print("\n| LeNet, T=1, called by | calls/s |\n|---|---:|")
    for count in (1, 2, 8):
        best = max(slice_of(model, feed, count, 0.2)[0] for _ in range(max(3, rounds // 10)))
        print(f"| {count} threads | {best:.0f} |")
    for in_threads in (False, True):
        for count in (1, 8):
            best = max(tasks(model, feed, count, 0.2, in_threads) for _ in range(max(3, rounds // 10)))
            print(f"| {count} tasks{', asyncio.to_thread' * in_threads} | {best:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--cases", default="", help="only functions whose line contains this")
    options = parser.parse_args()
    table(options.cases, options.rounds)
    models(options.rounds)


if __name__ == "__main__":
    main()
