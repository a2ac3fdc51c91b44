"""Operators of frameworks with channels last, expressed by operators with channels first.

Each is surrounded by transposes; between such operators they cancel (`passes/transposes.py`), so that a network of
them keeps at most one at its input and one at its output. SAME is left to the operator, which knows the sizes: an odd
amount of padding has its larger part at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cenote.core.errors import ModelError, UnsupportedError
from cenote.frontends.builder import PRIVATE, GraphBuilder, reshaped, transposed
from cenote.ops.conv.conv import Conv

Pads = Sequence[tuple[int, int]]


def channels_first(builder: GraphBuilder, value: str, rank: int) -> str:
    """Transpose (N, *spatial, C) to (N, C, *spatial); `rank` counts all axes."""
    return transposed(builder, value, (0, rank - 1, *range(1, rank - 1)))


def channels_last(builder: GraphBuilder, value: str, rank: int, name: str = "") -> str:
    """Transpose (N, C, *spatial) to (N, *spatial, C)."""
    return transposed(builder, value, (0, *range(2, rank), 1), name)


def padding_attributes(padding: str, pads: Pads) -> dict[str, Any]:
    """Return ONNX's attributes for SAME, VALID or EXPLICIT (begin, end) per spatial axis."""
    if padding == "SAME":
        return {"auto_pad": "SAME_UPPER"}
    if padding == "VALID":
        return {"auto_pad": "VALID"}
    if padding == "EXPLICIT":
        return {"pads": (*(begin for begin, _ in pads), *(end for _, end in pads))}
    raise ModelError(f"padding '{padding}' is none of SAME, VALID, EXPLICIT")


class ChannelsLast:
    """Builder of such operators; `first`: the caller's values have their channels first nevertheless (NCHW)."""

    def __init__(self, builder: GraphBuilder, first: bool = False) -> None:
        self.builder, self.first = builder, first

    def _in(self, value: str, rank: int) -> str:
        return value if self.first else channels_first(self.builder, value, rank)

    def _out(self, value: str, rank: int, name: str) -> str:
        return value if self.first else channels_last(self.builder, value, rank, name)

    def _name(self, name: str) -> str:
        """Return the name of the value with channels first: the operator's own name only if no transpose follows."""
        return name if self.first else f"{name}/channels_first"

    def conv(
        self,
        x: str,
        kernel: str,
        bias: str,
        *,
        rank: int,
        strides: Sequence[int],
        padding: str,
        pads: Pads = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
        name: str = "",
    ) -> str:
        """Add a convolution; `kernel` is (*window, C / groups, M), `bias` (M,) or "", `rank` counts all axes of x."""
        spatial = rank - 2
        weights = transposed(self.builder, kernel, (rank - 1, rank - 2, *range(spatial)))
        return self.conv_of(
            x,
            weights,
            bias,
            rank=rank,
            strides=strides,
            padding=padding,
            pads=pads,
            dilations=dilations,
            groups=groups,
            name=name,
        )

    def depthwise(
        self,
        x: str,
        kernel: str,
        bias: str,
        *,
        strides: Sequence[int],
        padding: str,
        pads: Pads = (),
        dilations: Sequence[int] = (),
        rank: int = 4,
        name: str = "",
    ) -> str:
        """Add a depthwise convolution; `kernel` is the constant (*window, C, multiplier), `rank` counts all axes of
        x."""
        content = self.builder.need(kernel, "the kernel of a depthwise convolution")
        if content.ndim != rank:
            raise ModelError(f"a depthwise kernel has {rank} axes, this one has shape {list(content.shape)}")
        *window, channels, multiplier = content.shape
        weights = reshaped(
            self.builder,
            transposed(self.builder, kernel, (rank - 2, rank - 1, *range(rank - 2))),
            (channels * multiplier, 1, *window),
        )
        return self.conv_of(
            x,
            weights,
            bias,
            rank=rank,
            strides=strides,
            padding=padding,
            pads=pads,
            dilations=dilations,
            groups=channels,
            name=name,
        )

    def conv_of(
        self,
        x: str,
        weights: str,
        bias: str,
        *,
        rank: int,
        strides: Sequence[int],
        padding: str,
        pads: Pads = (),
        dilations: Sequence[int] = (),
        groups: int = 1,
        name: str = "",
    ) -> str:
        """Add a convolution whose weights have ONNX's layout: (M, C / groups, *window). `groups` 0: taken from the
        shapes."""
        auto_pad = padding_attributes(padding, pads).get("auto_pad", "NOTSET")
        explicit = tuple(pads) if auto_pad == "NOTSET" else ()
        op = Conv(tuple(strides), explicit, tuple(dilations) or (1,) * (rank - 2), groups, auto_pad)
        (y,) = self.builder.add_op(op, (self._in(x, rank), weights, bias), (self._name(name),))
        return self._out(y, rank, name)

    def conv_transpose(
        self,
        x: str,
        kernel: str,
        bias: str,
        *,
        rank: int,
        strides: Sequence[int],
        padding: str,
        sizes: Sequence[int] | None,
        dilations: Sequence[int] = (),
        output_padding: Sequence[int] = (),
        name: str = "",
    ) -> str:
        """Add a transposed convolution; `kernel` is the constant (*window, M, C), `sizes` the spatial extents of the
        result (None: strides times those of x, plus the reach of the window beyond them if padding is VALID)."""
        content = self.builder.need(kernel, "the kernel of a transposed convolution")
        spatial = rank - 2
        window = content.shape[:spatial]
        weights = transposed(self.builder, kernel, (rank - 1, rank - 2, *range(spatial)))
        attributes: dict[str, Any] = {
            "strides": tuple(strides),
            "dilations": tuple(dilations) or (1,) * spatial,
        }
        if padding == "SAME":
            attributes["auto_pad"] = "SAME_UPPER"
        elif padding != "VALID":
            raise UnsupportedError(f"a transposed convolution with padding {padding} is not supported")
        else:
            reach = [(k - 1) * d + 1 for k, d in zip(window, attributes["dilations"], strict=True)]
            if sizes is None:
                extra = [max(0, s - k) for s, k in zip(strides, reach, strict=True)]
            else:
                # The rows that a convolution leaves over at the end.
                extra = [(size - k) % s for size, s, k in zip(sizes, strides, reach, strict=True)]
            attributes["output_padding"] = tuple(output_padding) or tuple(extra)
        if sizes is not None and padding == "SAME":
            attributes["output_shape"] = tuple(sizes)
        y = self.builder.add(
            "ConvTranspose", self._in(x, rank), weights, bias, name=self._name(name), **attributes
        )
        return self._out(y, rank, name)

    def pool(
        self,
        op: str,
        x: str,
        *,
        rank: int,
        window: Sequence[int],
        strides: Sequence[int],
        padding: str,
        pads: Pads = (),
        name: str = "",
    ) -> str:
        """Add a pool. `op`: "MaxPool" or "AveragePool" (which does not count padding)."""
        y = self.builder.add(
            op,
            self._in(x, rank),
            name=self._name(name),
            kernel_shape=tuple(window),
            strides=tuple(strides),
            **padding_attributes(padding, pads),
        )
        return self._out(y, rank, name)

    def on_first(self, op: str, x: str, rank: int, name: str = "", **attributes: Any) -> str:
        """Add any operator with one input that needs channels first."""
        y = self.builder.add(op, self._in(x, rank), name=self._name(name), **attributes)
        return self._out(y, rank, name)

    def normalize(
        self,
        x: str,
        scale: str,
        offset: str,
        mean: str,
        variance: str,
        *,
        rank: int,
        epsilon: float,
        name: str = "",
    ) -> str:
        """Add a batch normalisation by given statistics."""
        y = self.builder.add(
            "BatchNormalization",
            self._in(x, rank),
            scale,
            offset,
            mean,
            variance,
            name=self._name(name),
            epsilon=epsilon,
        )
        return self._out(y, rank, name)

    def resize(
        self,
        x: str,
        sizes: str,
        *,
        mode: str,
        align_corners: bool,
        half_pixel: bool,
        rank: int = 4,
        scales: str = "",
        name: str = "",
    ) -> str:
        """Add a resize of a picture. `sizes` is the value of the spatial extents, or `scales` that of the factors;
        `mode`: "nearest", "linear", "cubic".

        Coordinates are TensorFlow's products (`Resize.by_step`). Its nearest rounds to the nearest when corners are
        aligned, else down. Its cubic is Keys's (a = -1/2) over the elements within the picture for half pixel
        centres, else the one with a = -3/4.
        """
        coordinates = "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
        attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": coordinates}
        if mode == "nearest":
            attributes["nearest_mode"] = "round_prefer_ceil" if align_corners else "floor"
            if coordinates == "half_pixel":
                # The pixel that contains the centre.
                attributes["coordinate_transformation_mode"] = "tf_half_pixel_for_nn"
        if mode == "cubic" and half_pixel and not align_corners:
            attributes |= {"cubic_coeff_a": -0.5, "exclude_outside": 1}
        axes = tuple(range(2, rank)) if self.first else tuple(range(1, rank - 1))
        inputs: tuple[str, ...] = (x, "", scales)
        if not scales:
            sizes = self.builder.cast(sizes, np.dtype(np.int64)) if not self._is_int64(sizes) else sizes
            inputs = (x, "", "", sizes)
        return self.builder.add_many("Resize", inputs, (name,), domain=PRIVATE, axes=axes, **attributes)[0]

    def _is_int64(self, value: str) -> bool:
        content = self.builder.known(value)
        return content is not None and content.dtype == np.int64


def fused(builder: GraphBuilder, value: str, activation: str, name: str = "") -> str:
    """Apply an activation that a file names to a value: "", "RELU", "RELU6", "RELU_N1_TO_1", "TANH", …

    Raises UnsupportedError for an unknown one.
    """
    if activation in ("", "NONE"):
        return value
    simple = {"RELU": "Relu", "TANH": "Tanh", "SIGMOID": "Sigmoid"}
    if activation in simple:
        return builder.add(simple[activation], value, name=name)
    bounds = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}
    if activation not in bounds:
        raise UnsupportedError(f"the fused activation {activation} is not supported")
    low, high = (builder.constant(np.float32(bound)) for bound in bounds[activation])
    return builder.add("Clip", value, low, high, name=name)
