"""Convolution and matrix kernels alone, one thread: GFLOP/s and % of the multiply-add peak, as a Markdown table.

    python -m bench.convolutions [--repeats 9] [part of a layer's name …]

Every native lowering of every layer is measured; "effective" rates count the operations of a plain convolution, so that
Winograd's exceed the peak. The figure is the thread's CPU time (a busy machine preempts it) in the fastest of several
runs, of which each lasts at least 2 ms; the peak is measured before and after, because clocks and neighbours change.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cenote.codegen import jit
from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32
from cenote.core.formulas.expressions import word_of_float
from cenote.core.types import Array, Layout, TensorType
from cenote.kernels.base import (
    Argument,
    Call,
    View,
    buffer_elements,
    content_of,
    dense_strides,
    halo_offset,
    present,
)
from cenote.kernels.elementwise.activations import Activation
from cenote.ops.base import Lowering, Op
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.linear.gemm import Gemm
from cenote.runtime.steps import Slot, SlotKind

TARGET = jit.host_target()
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
RELU = Activation("relu")
SHORTEST = 2e-3  # seconds of one run


def multiply_add_peak() -> float:
    """GFLOP/s of one core: twelve independent sums, the fastest of many short bursts."""
    kernel, lanes, chains = (
        Kernel("multiply_add_peak", TARGET, [Parameter("y", F32, pointer=True)]),
        TARGET.lanes(),
        12,
    )
    y = kernel.pointer("y")
    sums = [kernel.variable(y.load(i * lanes, lanes)) for i in range(chains)]
    a, b = y.load(0, lanes), y.load(lanes, lanes)
    for _ in kernel.range(kernel.begin, kernel.end):
        for total in sums:
            total.value = kernel.fma(a, b, total.value)
    for i, total in enumerate(sums):
        y.store(total.value, i * lanes)
    work = KERNEL(jit.addresses([kernel], TARGET)[kernel.symbol])
    buffer = np.zeros(chains * lanes, np.float32)
    words = (ctypes.c_int64 * 1)(buffer.ctypes.data)
    best, rounds = float("inf"), 200_000
    for _ in range(50):
        begin = time.perf_counter()
        work(ctypes.addressof(words), 0, rounds, 0)
        best = min(best, time.perf_counter() - begin)
    return 2 * lanes * chains * rounds / best / 1e9


@dataclass(frozen=True)
class Layer:
    """One layer of a network: the operator and the shapes of x and of the weights."""

    name: str
    op: Op
    x: tuple[int, ...]
    w: tuple[int, ...]
    known: bool = True


def conv(
    name: str, channels: int, size: int, filters: int, window: tuple[int, int], stride: int = 1, groups: int = 1,
    pad: tuple[int, int] | None = None,
) -> Layer:  # fmt: skip
    """A 2-D convolution with "same" padding unless given, and ReLU."""
    down, across = pad or (window[0] // 2, window[1] // 2)
    op = Conv((stride, stride), ((down, down), (across, across)), groups=groups, activation=RELU)
    return Layer(name, op, (1, channels, size, size), (filters, channels // groups, *window))


LAYERS = (
    conv("resnet conv1 7x7/2", 3, 224, 64, (7, 7), 2),
    conv("vgg conv1 3x3", 3, 224, 64, (3, 3)),
    conv("alexnet conv1 11x11/4", 3, 224, 64, (11, 11), 4, pad=(2, 2)),
    conv("vgg 3x3 64@224", 64, 224, 64, (3, 3)),
    conv("vgg 3x3 128@112", 128, 112, 128, (3, 3)),
    conv("vgg 3x3 256@56", 256, 56, 256, (3, 3)),
    conv("vgg 3x3 512@28", 512, 28, 512, (3, 3)),
    conv("resnet 3x3 64@56", 64, 56, 64, (3, 3)),
    conv("resnet 3x3 128@28", 128, 28, 128, (3, 3)),
    conv("resnet 3x3 256@14", 256, 14, 256, (3, 3)),
    conv("resnet 3x3 512@7", 512, 7, 512, (3, 3)),
    conv("resnet 3x3/2 128@56", 128, 56, 128, (3, 3), 2),
    conv("resnet 1x1 64-256@56", 64, 56, 256, (1, 1)),
    conv("resnet 1x1 256-64@56", 256, 56, 64, (1, 1)),
    conv("resnet 1x1/2 256-512@56", 256, 56, 512, (1, 1), 2),
    conv("resnet 1x1 1024-256@14", 1024, 14, 256, (1, 1)),
    conv("resnet 1x1 512-2048@7", 512, 7, 2048, (1, 1)),
    conv("inception 1x7 192@17", 192, 17, 192, (1, 7)),
    conv("inception 7x1 192@17", 192, 17, 192, (7, 1)),
    conv("inception 5x5 48-64@35", 48, 35, 64, (5, 5)),
    conv("mobilenet 1x1 16-96@112", 16, 112, 96, (1, 1)),
    conv("mobilenet 1x1 96-24@56", 96, 56, 24, (1, 1)),
    conv("shufflenet 1x1 58@28", 58, 28, 58, (1, 1)),
    conv("mobilenet dw 3x3 144@56", 144, 56, 144, (3, 3), groups=144),
    conv("mobilenet dw 3x3/2 96@112", 96, 112, 96, (3, 3), 2, groups=96),
    conv("efficientnet dw 5x5 240@28", 240, 28, 240, (5, 5), groups=240),
    conv("mobilenet dw 3x3 960@7", 960, 7, 960, (3, 3), groups=960),
    conv("resnext 3x3 32x4@56", 128, 56, 128, (3, 3), groups=32),
    conv("resnext 3x3/2 32x8@56", 256, 56, 256, (3, 3), 2, groups=32),
    conv("grouped 3x3 2 each 64@28", 64, 28, 64, (3, 3), groups=32),
    Layer("transposed 4x4/2 64@28", ConvTranspose((2, 2), ((1, 1), (1, 1))), (1, 64, 28, 28), (64, 64, 4, 4)),
    Layer("linear 4096-4096", Gemm(transpose_b=True), (1, 4096), (4096, 4096)),
    Layer("linear 2048-1000", Gemm(transpose_b=True), (1, 2048), (1000, 2048)),
    Layer("linear 4096-4096, batch 4", Gemm(transpose_b=True), (4, 4096), (4096, 4096)),
    Layer("matrices 512", Gemm(), (512, 512), (512, 512), known=False),
    Layer("matrices 1024", Gemm(), (1024, 1024), (1024, 1024), known=False),
)


class Program:
    """The calls of one lowering on buffers of noise."""

    def __init__(self, op: Op, lowering: Lowering, types: list[TensorType]) -> None:
        self.kept: list[Array] = []
        random = np.random.default_rng(0)
        inputs = []
        for type_, layout in zip(types, lowering.inputs, strict=True):
            if layout is None:  # a constant that the lowering packs
                slot = Slot(SlotKind.CONSTANT, 0)
                inputs.append(View(type_, Layout(), dense_strides(type_.shape), slot))
            else:
                inputs.append(self.view(type_, layout, random))
        made = [
            self.view(t, layout, None) for t, layout in zip(op.infer(*types), lowering.outputs, strict=True)
        ]
        made += [self.view(t, Layout(), None) for t in lowering.temporaries]
        self.calls = lowering.bind(inputs, made)
        self.launches = [self.launch(call) for call in self.calls]

    def memory(self, nbytes: int) -> Array:
        """Bytes aligned to a cache line."""
        raw = np.zeros(nbytes + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.kept.append(raw[start : start + nbytes])
        return self.kept[-1]

    def view(self, type_: TensorType, layout: Layout, random: np.random.Generator | None) -> View:
        buffer = self.memory(buffer_elements(type_.shape, layout) * 4)
        if random is not None:
            buffer.view(np.float32)[:] = random.standard_normal(buffer.size // 4)
        slot = Slot(SlotKind.ARENA, len(self.kept) - 1, halo_offset(type_.shape, layout) * 4)
        return View(replace(type_, value=None), layout, dense_strides(type_.shape, layout), slot)

    def word(self, argument: Argument) -> int:
        if argument is None:
            return 0
        if isinstance(argument, View):
            return int(self.kept[argument.slot.index].ctypes.data) + argument.slot.offset
        if isinstance(argument, float):
            return word_of_float(argument)
        if isinstance(argument, int | np.integer):
            return int(argument)
        content = present(content_of(argument))
        copy = self.memory(content.nbytes)
        copy[:] = np.ascontiguousarray(content).view(np.uint8).ravel()
        return int(copy.ctypes.data)

    def launch(self, call: Call) -> tuple[object, ...]:
        address = jit.addresses([call.spec], TARGET)[call.spec.symbol]
        words = (ctypes.c_int64 * max(1, len(call.arguments)))(*map(self.word, call.arguments))
        scratch = self.memory(call.scratch)
        return KERNEL(address), ctypes.addressof(words), call.items, int(scratch.ctypes.data), words

    def run(self) -> None:
        for function, words, items, scratch, _ in self.launches:
            function(words, 0, items, scratch)  # type: ignore[operator]  # a ctypes function

    def seconds(self, repeats: int) -> float:
        """The fastest run, after a warm-up."""
        self.run()
        begin = time.thread_time()
        self.run()
        times = max(1, int(SHORTEST / max(time.thread_time() - begin, 1e-6)))
        best = float("inf")
        for _ in range(repeats):
            begin = time.thread_time()
            for _ in range(times):
                self.run()
            best = min(best, (time.thread_time() - begin) / times)
        return best


def rows(layer: Layer, repeats: int, peak: float) -> Iterator[str]:
    """A line of the table per lowering."""
    random = np.random.default_rng(1)
    w = random.standard_normal(layer.w).astype(np.float32)
    types = [
        TensorType.of(np.float32, layer.x),
        TensorType.known(w) if layer.known else TensorType.of(w.dtype, w.shape),
    ]
    cost = layer.op.cost(types)
    for lowering in layer.op.lowerings(types, TARGET):
        seconds = Program(layer.op, lowering, types).seconds(repeats)
        rate = cost.operations / seconds / 1e9
        yield (
            f"| {layer.name} | {lowering.name} | {seconds * 1e3:.3f} | {rate:.1f} | {100 * rate / peak:.0f} | "
            f"{cost.bytes / seconds / 1e9:.1f} | {lowering.seconds * 1e3:.3f} |"
        )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="measure only layers with one of these in their names")
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    peak = multiply_add_peak()
    print(f"{TARGET.name}, {TARGET.cpu}: multiply-add peak of one core {peak:.1f} GFLOP/s\n")
    print(
        "| layer | kernel | ms | GFLOP/s | % of peak | GB/s | estimated ms |\n|---|---|---:|---:|---:|---:|---:|"
    )
    for layer in LAYERS:
        if not options.names or any(name in layer.name for name in options.names):
            for row in rows(layer, options.repeats, peak):
                print(row, flush=True)
    print(f"\npeak afterwards: {multiply_add_peak():.1f} GFLOP/s")


if __name__ == "__main__":
    main()
