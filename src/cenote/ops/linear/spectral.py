"""Signals: DFT, STFT, window functions, the mel scale; and Det, the determinant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import ArgumentError, ShapeError
from cenote.core.sizes import plain
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.ops.base import Arrays, Imported, Op, Rewired, Sample, Types
from cenote.ops.checks import (
    dtype_from_code,
    known_int,
    normalize_axis,
    one_of,
    read,
    require_kind,
    require_same_dtype,
)
from cenote.ops.values import narrow, seeded, wide

# Factors of cos(0), cos(2 pi n / N), cos(4 pi n / N).
WINDOWS: Mapping[str, tuple[float, ...]] = {
    "hann": (0.5, -0.5),
    "hamming": (25 / 46, -21 / 46),  # the exact coefficients, usually rounded to 0.54 and 0.46
    "blackman": (0.42, -0.5, 0.08),
}


def _decode_window(node: Imported) -> Op:
    node.expect("output_datatype", "periodic")
    dtype = dtype_from_code("window", int(node.get("output_datatype", 1)))
    return Window(node.op.removesuffix("Window").lower(), node.flag("periodic", 1), dtype)


def _decode_dft(node: Imported) -> Op | Rewired:
    """The axis is an attribute (1) before opset 20, an input (-2) after."""
    op = read(DFT, node, "inverse", "onesided", ignored=("axis",))
    if node.opset >= 20:
        return op
    length = 1 if len(node.present) > 1 and node.present[1] else None
    return Rewired(op, (0, length, np.array(node.get("axis", 1), np.int64)))


@dataclass(frozen=True)
class Window(Op):
    """A Hann, Hamming or Blackman window of `size` values; periodic: the first of a symmetric one of size + 1."""

    kind: str
    periodic: bool = True
    dtype: np.dtype[Any] = FLOAT32

    name = "window"
    operands = ("size",)
    from_onnx = {f"{kind.capitalize()}Window": _decode_window for kind in ("hann", "hamming", "blackman")}

    def types(self, size: TensorType) -> Types:
        one_of(self.name, "kind", self.kind, tuple(WINDOWS))
        count = known_int(self.name, size, 0, "size")
        if count < 0:
            raise ArgumentError(f"window: size {count} is negative")
        return (TensorType(self.dtype, (count,)),)

    def compute(self, size: Array) -> Arrays:
        count = int(size.item())
        turns = np.arange(count) / max(count if self.periodic else count - 1, 1)
        cosines = [factor * np.cos(2 * np.pi * k * turns) for k, factor in enumerate(WINDOWS[self.kind])]
        y = np.ones(1) if count == 1 and not self.periodic else np.sum(cosines, axis=0)
        return (narrow(y, self.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for kind in WINDOWS:
            for periodic in (False, True):
                yield Sample(Window(kind, periodic), (np.array(10, np.int64),))
                yield Sample(Window(kind, periodic), (np.array([1], np.int32),))
            yield Sample(Window(kind, dtype=np.dtype(np.float64)), (np.array(0, np.int64),))


@dataclass(frozen=True)
class MelWeightMatrix(Op):
    """(bins of a one-sided spectrum, mel bands): triangles with peak 1, evenly spaced on the mel scale.

    mel(f) = 2595 log10(1 + f / 700). Band edges are rounded down to bins and spaced (high - low) / (bands + 2), as
    ONNX Runtime and ONNX's reference do.
    """

    dtype: np.dtype[Any] = FLOAT32

    name = "mel_weight_matrix"
    operands = ("bands", "dft_length", "sample_rate", "low", "high")
    from_onnx = {"MelWeightMatrix": lambda node: read(MelWeightMatrix, node, dtype="output_datatype")}

    def types(self, bands: TensorType, dft_length: TensorType, *rest: TensorType) -> Types:
        for x, what in zip(rest, self.operands[2:], strict=True):
            if require_kind(self.name, x, "iu" if what == "sample_rate" else "f", what).size != 1:
                raise ShapeError(f"{self.name}: '{what}' must hold one number, got {x}")
        columns, length = (
            known_int(self.name, bands, 0, "bands"),
            known_int(self.name, dft_length, 1, "dft_length"),
        )
        if columns < 0 or length < 0:
            raise ArgumentError(f"{self.name}: {columns} bands of a spectrum of {length} make no sense")
        return (TensorType(self.dtype, (length // 2 + 1, columns)),)

    def compute(self, bands: Array, dft_length: Array, sample_rate: Array, low: Array, high: Array) -> Arrays:
        (result,) = self.declared(bands, dft_length, sample_rate, low, high)
        rows, columns = result.shape
        first, last = (2595 * np.log10(1 + wide(edge).item() / 700) for edge in (low, high))
        mels = first + np.arange(columns + 2) * (last - first) / (columns + 2)
        hertz = 700 * (10 ** (mels / 2595) - 1)
        edges = np.floor((int(dft_length.item()) + 1) * hertz / int(sample_rate.item())).astype(np.int64)
        if columns and not 0 <= edges.min() <= edges.max() <= rows:
            raise ArgumentError(f"{self.name}: bands from {low} to {high} Hz leave a spectrum of {rows} bins")
        y = np.zeros((rows + 1, columns))
        for band in range(columns):
            begin, centre, end = edges[band : band + 3].tolist()
            rising = np.arange(begin, centre + 1)
            y[rising, band] = (rising - begin) / (centre - begin) if centre > begin else 1
            falling = np.arange(centre, end)
            y[falling, band] = (end - falling) / max(end - centre, 1)
        return (narrow(y[:rows], self.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        numbers = (np.array(8, np.int64), np.array(16, np.int64), np.array(8192, np.int64))
        edges = (np.array(0, np.float32), np.array(8192 / 2, np.float32))
        yield Sample(MelWeightMatrix(), (*numbers, *edges))
        yield Sample(
            MelWeightMatrix(np.dtype(np.float64)),
            (np.array([40]), np.array([512]), np.array([16000]), *edges),
        )


@dataclass(frozen=True)
class DFT(Op):
    """The discrete Fourier transform along one axis of x (..., 1) real or (..., 2) complex; the inverse
    divides by n.

    A length cuts or zero-pads the axis. `onesided`: the first n // 2 + 1 values of a real signal's
    transform, or (inverse) the real signal (..., 1) of such values, by default of 2 (axis - 1) samples.
    """

    inverse: bool = False
    onesided: bool = False

    name = "dft"
    operands = ("x", "length?", "axis?")
    from_onnx = {"DFT": _decode_dft}

    def extents(self, x: TensorType, length: TensorType | None, axis: TensorType | None) -> tuple[int, int]:
        """The axis and the length of the transform."""
        if require_kind(self.name, x, "f", "x").rank < 2 or x.shape[-1] not in (1, 2):
            raise ShapeError(f"dft: {x} must end in an axis of 1 (real) or 2 (complex)")
        along = -2 if axis is None else known_int(self.name, axis, 2, "axis")
        along = normalize_axis(self.name, along, x.rank)
        if along == x.rank - 1:
            raise ShapeError(f"dft: the last axis of {x} holds the complex parts and cannot be transformed")
        extent = x.shape[along]
        default = 2 * (extent - 1) if self.inverse and self.onesided else extent
        count = default if length is None else known_int(self.name, length, 1, "length")
        if count < 1:
            raise ArgumentError(f"dft: the length {count} along axis {along} of {x} must be positive")
        wanted = 2 if self.inverse else 1
        if self.onesided and x.shape[-1] != wanted:
            raise ShapeError(f"dft: one-sided needs {('real', 'complex')[wanted - 1]} input, got {x}")
        return along, count

    def types(self, x: TensorType, length: TensorType | None, axis: TensorType | None) -> Types:
        along, count = self.extents(x, length, axis)
        back = self.inverse and self.onesided
        extent = count // 2 + 1 if self.onesided and not back else count
        return (TensorType(x.dtype, (*x.shape[:along], extent, *x.shape[along + 1 : -1], 1 if back else 2)),)

    def compute(self, x: Array, length: Array | None, axis: Array | None) -> Arrays:
        kinds = [None if value is None else TensorType.known(value) for value in (length, axis)]
        along, count = self.extents(TensorType.known(x), *kinds)
        values = wide(x)
        signal = values[..., 0] + 1j * values[..., 1] if x.shape[-1] == 2 else values[..., 0]
        if self.onesided and self.inverse:
            return (narrow(np.fft.irfft(signal, count, along)[..., None], x.dtype),)
        if self.onesided:
            spectrum = np.fft.rfft(signal, count, along)
        else:
            spectrum = np.fft.ifft(signal, count, along) if self.inverse else np.fft.fft(signal, count, along)
        return (narrow(np.stack((spectrum.real, spectrum.imag), -1), x.dtype),)

    def operations(self, outputs: Types, *inputs: TensorType | None) -> int:
        return 5 * outputs[0].size * max(plain(outputs[0].size), 2).bit_length()

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        real, complex_ = seeded((2, 7, 3, 1), 1), seeded((2, 7, 3, 2), 2)
        axis, length = np.array(1, np.int64), np.array(10, np.int64)
        for inverse in (False, True):
            yield Sample(DFT(inverse), (real, None, axis))
            yield Sample(DFT(inverse), (complex_, length, axis))
            yield Sample(DFT(inverse), (complex_, np.array([3]), np.array([-3], np.int32)), "cut")
            yield Sample(DFT(inverse, True), (complex_ if inverse else real, None, axis), "one side")
            yield Sample(
                DFT(inverse, True), (complex_ if inverse else real, length, axis), "one side, padded"
            )
        yield Sample(DFT(), (seeded((0, 4, 1)),))


@dataclass(frozen=True)
class STFT(Op):
    """Transforms of frames of a signal (batch, length, 1 or 2), `step` samples apart: (batch, frames, bins,
    2).

    The window multiplies each frame (ones by default); its length, or else the signal's, is the frame's if
    none is given. `onesided` keeps the first half of a real signal's bins.
    """

    onesided: bool = True

    name = "stft"
    operands = ("signal", "step", "window?", "frame_length?")
    from_onnx = {"STFT": lambda node: read(STFT, node, "onesided")}

    def extents(
        self, signal: TensorType, step: TensorType, window: TensorType | None, length: TensorType | None
    ) -> tuple[int, int, int]:
        """Step, frame length and number of frames."""
        if require_kind(self.name, signal, "f", "signal").rank != 3 or signal.shape[2] not in (1, 2):
            raise ShapeError(f"stft: {signal} must be (batch, length, 1 or 2)")
        stride = known_int(self.name, step, 1, "step")
        frame = signal.shape[1] if window is None else window.size
        frame = frame if length is None else known_int(self.name, length, 3, "frame_length")
        if window is not None and window.shape != (frame,):
            raise ShapeError(f"stft: window {window} must hold {frame} numbers, one per sample of a frame")
        if stride < 1 or not 1 <= frame <= signal.shape[1]:
            raise ArgumentError(f"stft: step {stride} and frames of {frame} do not fit {signal}")
        if self.onesided and signal.shape[2] != 1:
            raise ShapeError(f"stft: one-sided needs a real signal, got {signal}")
        return stride, frame, (signal.shape[1] - frame) // stride + 1

    def types(
        self, signal: TensorType, step: TensorType, window: TensorType | None, length: TensorType | None
    ) -> Types:
        require_same_dtype(self.name, signal, window)
        _, frame, frames = self.extents(signal, step, window, length)
        bins = frame // 2 + 1 if self.onesided else frame
        return (TensorType(signal.dtype, (signal.shape[0], frames, bins, 2)),)

    def compute(self, signal: Array, step: Array, window: Array | None, length: Array | None) -> Arrays:
        kinds = [None if value is None else TensorType.known(value) for value in (window, length)]
        stride, frame, frames = self.extents(TensorType.known(signal), TensorType.known(step), *kinds)
        values = wide(signal)
        samples = values[..., 0] + 1j * values[..., 1] if signal.shape[2] == 2 else values[..., 0]
        places = np.arange(frames)[:, None] * stride + np.arange(frame)
        framed = samples[:, places] * (1 if window is None else wide(window))
        spectrum = np.fft.rfft(framed) if self.onesided else np.fft.fft(framed)
        return (narrow(np.stack((spectrum.real, spectrum.imag), -1), signal.dtype),)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        signal, step = seeded((2, 20, 1)), np.array(4, np.int64)
        window = np.hanning(7).astype(np.float32)
        yield Sample(STFT(), (signal, step, window, None))
        yield Sample(STFT(False), (seeded((1, 20, 2)), step, None, np.array(8, np.int64)), "complex")
        yield Sample(STFT(False), (signal, step), "one frame")
        yield Sample(STFT(), (signal[:0], step, window, np.array([7], np.int32)), "empty")


@dataclass(frozen=True)
class Det(Op):
    """The determinant of each square matrix in the last two axes."""

    name = "det"
    operands = ("x",)
    from_onnx = {"Det": lambda node: read(Det, node)}

    def types(self, x: TensorType) -> Types:
        if require_kind(self.name, x, "f", "x").rank < 2 or x.shape[-1] != x.shape[-2]:
            raise ShapeError(f"det: {x} must end in square matrices")
        return (TensorType(x.dtype, x.shape[:-2]),)

    def compute(self, x: Array) -> Arrays:
        return (narrow(np.linalg.det(wide(x)), x.dtype),)

    def operations(self, outputs: Types, x: TensorType) -> int:
        return x.size * max(x.shape[-1], 1)

    @classmethod
    def samples(cls) -> Iterable[Sample]:
        for shape in ((3, 3), (2, 2, 4, 4), (1, 1), (0, 2, 2), (2, 0, 0)):
            yield Sample(Det(), (seeded(shape),))
