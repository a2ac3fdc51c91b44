"""Pooling kernels alone, one thread: milliseconds and GB/s (input and output bytes, once each), best of several runs.

    python -m bench.pool_kernels [--peers] [part of a case's name …]

With --peers, onnxruntime and PyTorch (channels last, and as it comes) run the same case in turn with ours, one thread
each; the ratio is against the fastest of them. For the published figures see bench/pooling, which measures whole calls.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cenote.codegen import jit
from cenote.core.types import PLAIN, Array, TensorType
from cenote.kernels.base import Call, Slot, View, dense_strides, float_word
from cenote.kernels.pool.plan import Factors, Geometry, Memory, factors, windowed

TARGET = jit.host_target()
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


@dataclass(frozen=True)
class Case:
    """One pooling of float32 noise; window, stride and pad of every spatial axis are alike."""

    name: str
    kind: str
    shape: tuple[int, ...]
    window: int
    stride: int = 1
    pad: int = 0
    include_pad: bool = True

    @property
    def rank(self) -> int:
        return len(self.shape) - 2

    def geometry(self) -> Geometry:
        missing = 3 - self.rank
        fill = lambda value, neutral: (neutral,) * missing + (value,) * self.rank  # noqa: E731
        size = (1,) * missing + self.shape[2:]
        out = tuple(
            (n + 2 * p - w) // s + 1
            for n, w, s, p in zip(
                size, fill(self.window, 1), fill(self.stride, 1), fill(self.pad, 0), strict=True
            )
        )
        return Geometry(size, out, fill(self.window, 1), fill(self.stride, 1), (1, 1, 1), fill(self.pad, 0))


CASES = (
    Case("max k2s2 1x64x224x224", "max", (1, 64, 224, 224), 2, 2),
    Case("max k3s2p1 1x64x112x112", "max", (1, 64, 112, 112), 3, 2, 1),
    Case("max k3s1p1 8x192x28x28", "max", (8, 192, 28, 28), 3, 1, 1),
    Case("max k5s1p2 1x512x20x20", "max", (1, 512, 20, 20), 5, 1, 2),
    Case("max k9s1p4 1x512x20x20", "max", (1, 512, 20, 20), 9, 1, 4),
    Case("max k13s1p6 1x512x20x20", "max", (1, 512, 20, 20), 13, 1, 6),
    Case("avg k3s1p1 incl 1x256x56x56", "avg", (1, 256, 56, 56), 3, 1, 1),
    Case("avg k3s1p1 excl 1x256x56x56", "avg", (1, 256, 56, 56), 3, 1, 1, include_pad=False),
    Case("max k2s2 16x64x56x56", "max", (16, 64, 56, 56), 2, 2),
    Case("max k31s1p15 1x3x2048x2048", "max", (1, 3, 2048, 2048), 31, 1, 15),
    Case("avg k31s1p15 1x3x2048x2048", "avg", (1, 3, 2048, 2048), 31, 1, 15),
    Case("max k8s1 1x3x2048x2048", "max", (1, 3, 2048, 2048), 8, 1),
    Case("max k64s1 1x3x2048x2048", "max", (1, 3, 2048, 2048), 64, 1),
    Case("3D max k2s2 1x32x32x112x112", "max", (1, 32, 32, 112, 112), 2, 2),
    Case("3D avg k3s1p1 1x32x32x112x112", "avg", (1, 32, 32, 112, 112), 3, 1, 1),
    Case("1D max k4s4 8x64x16000", "max", (8, 64, 16000), 4, 4),
)


def ours(case: Case, x: Array) -> tuple[Callable[[], None], Array]:
    g = case.geometry()
    y = np.zeros((*case.shape[:2], *g.out[3 - case.rank :]), np.float32)
    x5, y5 = (*case.shape[:2], *g.size), (*case.shape[:2], *g.out)
    views = [
        View(TensorType.of(np.float32, s), PLAIN, dense_strides(s), Slot("arena", i))
        for i, s in enumerate((x5, y5))
    ]
    memory = Memory(*case.shape[:2], views[0].strides[:4], views[1].strides[:4])
    reduction, scale = case.kind, Factors()
    if case.kind == "avg":
        reduction = "sum"
        scale = factors([counts(g, axis, case.include_pad) for axis in range(3)], np.dtype(np.float32))
    call = windowed(reduction, np.dtype(np.float32), g, memory, TARGET, *views, scale=scale)
    assert call is not None
    return launcher(call, [x, y]), y


def counts(g: Geometry, axis: int, include_pad: bool) -> list[int]:
    """Elements of each window along an axis that the divisor counts."""
    pad = g.pad[axis] if include_pad else 0
    windows = [
        range(o * g.stride[axis] - g.pad[axis], o * g.stride[axis] - g.pad[axis] + g.window[axis])
        for o in range(g.out[axis])
    ]
    return [sum(-pad <= position < g.size[axis] + pad for position in window) for window in windows]


def launcher(call: Call, arrays: list[Array]) -> Callable[[], None]:
    """A function that runs the call once, all items."""
    spec = call.spec
    function = KERNEL(jit.addresses([spec], TARGET)[spec.symbol])
    kept: list[Any] = [*arrays]

    def word(argument: Any) -> int:
        if isinstance(argument, View):
            return int(arrays[argument.slot.index].ctypes.data)
        if isinstance(argument, np.ndarray):
            kept.append(np.ascontiguousarray(argument))
            return int(kept[-1].ctypes.data)
        return float_word(argument) if isinstance(argument, float) else int(argument or 0)

    words = (ctypes.c_int64 * len(call.arguments))(*map(word, call.arguments))
    memory = np.zeros(call.scratch + 64, np.uint8)
    address, scratch = ctypes.addressof(words), (memory.ctypes.data + 63) & ~63
    kept += [words, memory]
    return lambda: (kept, function(address, 0, call.items, scratch))[1]  # type: ignore[func-returns-value]  # kept alive


def torch_peers(case: Case, x: Array) -> dict[str, Callable[[], Any]]:
    import torch

    torch.set_num_threads(1)
    name = f"{case.kind}_pool{case.rank}d"
    function: Any = getattr(torch.nn.functional, name)
    options = {} if case.kind == "max" else {"count_include_pad": case.include_pad}
    arguments = (case.window, case.stride, case.pad)
    tensor = torch.from_numpy(x)
    runs = {"torch": lambda: function(tensor, *arguments, **options)}
    if case.rank == 2:
        last = tensor.contiguous(memory_format=torch.channels_last)
        runs["torch last"] = lambda: function(last, *arguments, **options)
    return runs


def onnxruntime_peer(case: Case, x: Array) -> dict[str, Callable[[], Any]]:
    import onnxruntime
    from onnx import TensorProto, helper

    attributes: dict[str, Any] = {
        "kernel_shape": [case.window] * case.rank,
        "strides": [case.stride] * case.rank,
    }
    attributes["pads"] = [case.pad] * (2 * case.rank)
    if case.kind == "avg":
        attributes["count_include_pad"] = int(case.include_pad)
    node = helper.make_node("MaxPool" if case.kind == "max" else "AveragePool", ["x"], ["y"], **attributes)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * x.ndim)]
    model = helper.make_model(
        helper.make_graph([node], "pool", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=10,
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    y = session.run(None, {"x": x})[0]
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return {"onnxruntime": lambda: (y, session.run_with_iobinding(binding))[1]}


def minima(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Best time of each, taken in turn."""
    best = dict.fromkeys(runs, float("inf"))
    started, rounds = time.perf_counter(), 0
    while rounds < 5 or (time.perf_counter() - started < seconds and rounds < 200):
        for name, run in runs.items():
            if rounds and best[name] > seconds:
                continue  # a peer that takes seconds runs once
            before = time.thread_time()  # the machine may be busy: what counts is this thread's time
            run()
            best[name] = min(best[name], time.thread_time() - before)
        rounds += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    for case in CASES:
        if options.names and not any(name in case.name for name in options.names):
            continue
        x = np.random.default_rng(0).standard_normal(case.shape).astype(np.float32)
        run, y = ours(case, x)
        runs: dict[str, Callable[[], Any]] = {"cenote": run}
        if options.peers and x.size < 1e7:
            runs |= torch_peers(case, x)
        if options.peers and (x.size < 1e7 or case.rank == 3):
            runs |= onnxruntime_peer(case, x)
        best = minima(runs, options.seconds)
        mine = best.pop("cenote")
        shown = ", ".join(f"{name} {seconds * 1e3:.3f}" for name, seconds in best.items())
        ratio = f"  x{min(best.values()) / mine:.2f}" if best else ""
        print(
            f"{case.name:32} {mine * 1e3:9.3f} ms {(x.nbytes + y.nbytes) / mine / 1e9:6.1f} GB/s{ratio}  {shown}"
        )


if __name__ == "__main__":
    main()
