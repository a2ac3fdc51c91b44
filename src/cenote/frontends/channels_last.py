"""Operators of frameworks with channels last, expressed by operators with channels first.

Each is surrounded by transposes; between such operators they cancel (`passes/transposes.py`), so that a network of
them keeps at most one at its input and one at its output. SAME is left to the operator, which knows the sizes: an odd
amount of padding has its larger part at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cenote.core.deferred import dataclass
from cenote.core.errors import CenoteError, ModelError, UnsupportedError
from cenote.core.types import Array
from cenote.frontends.builder import PRIVATE, GraphBuilder, reshaped, transposed
from cenote.frontends.pieces import clipped
from cenote.frontends.strided_slice import as_int64
from cenote.graph.graph import Node
from cenote.ops.conv.conv import Conv
from cenote.ops.movement.shape import Shape

Pads = Sequence[tuple[int, int]]
# Extents of the smallest picture that computed paddings are tried with. Others follow, for all remainders of a division
# by the block.
_HEIGHT, _WIDTH = 24, 41
# Largest block that is tried: a convolution dilated by 64 has no more remainders.
_MOST = 64


def channels_first(builder: GraphBuilder, value: str, rank: int) -> str:
    """Transpose (N, *spatial, C) to (N, C, *spatial); `rank` counts all axes."""
    return transposed(builder, value, (0, rank - 1, *range(1, rank - 1)))


def channels_last(builder: GraphBuilder, value: str, rank: int, name: str = "") -> str:
    """Transpose (N, C, *spatial) to (N, *spatial, C)."""
    return transposed(builder, value, (0, *range(2, rank), 1), name)


@dataclass(frozen=True)
class SlidingWindow:
    """The steps of a window over pictures: `padding` SAME, VALID or EXPLICIT (`pads`: begin and end per spatial axis).
    Without `dilations` they are 1."""

    strides: Sequence[int]
    padding: str
    pads: Pads = ()
    dilations: Sequence[int] = ()

    @property
    def rank(self) -> int:
        """The number of all axes of the pictures."""
        return len(self.strides) + 2

    @property
    def steps(self) -> tuple[int, ...]:
        """The dilation of each axis."""
        return tuple(self.dilations) or (1,) * len(self.strides)

    @property
    def attributes(self) -> dict[str, Any]:
        """ONNX's attributes of the padding."""
        if self.padding in ("SAME", "VALID"):
            return {"auto_pad": "SAME_UPPER" if self.padding == "SAME" else "VALID"}
        if self.padding == "EXPLICIT":
            return {"pads": (*(begin for begin, _ in self.pads), *(end for _, end in self.pads))}
        raise ModelError(f"padding '{self.padding}' is none of SAME, VALID, EXPLICIT")

    def dilated(self, block: Sequence[int], left: Pads) -> SlidingWindow:
        """Return the window of a convolution between SpaceToBatchND, which pads, and BatchToSpaceND, which crops: the
        one dilated by the block.

        Each of the block's phases is convolved separately, so the result has the extents of the dilated convolution of
        the padded input; cropping the result reduces the padding, to what is `left`.
        """
        if min(min(pair) for pair in left) < 0:
            raise UnsupportedError(f"crops larger than the paddings are not supported: {list(left)} is left")
        if self.padding != "VALID" or {*self.strides, *self.steps} != {1}:
            raise UnsupportedError(
                "the convolution after SpaceToBatchND must be VALID, with strides and dilations of 1"
            )
        # Axes of a row that is convolved as a picture of height 1.
        added = 2 - len(block)
        return replace(
            self,
            padding="EXPLICIT",
            pads=[(0, 0)] * added + list(left),
            dilations=(1,) * added + tuple(block),
        )


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
        self, x: str, kernel: str, bias: str, window: SlidingWindow, *, groups: int = 1, name: str = ""
    ) -> str:
        """Add a convolution; `kernel` is (*window, C / groups, M), `bias` (M,) or ""."""
        rank = window.rank
        weights = transposed(self.builder, kernel, (rank - 1, rank - 2, *range(rank - 2)))
        return self.conv_of(x, weights, bias, window, groups=groups, name=name)

    def depthwise(self, x: str, kernel: str, bias: str, window: SlidingWindow, *, name: str = "") -> str:
        """Add a depthwise convolution; `kernel` is the constant (*window, C, multiplier)."""
        content, rank = self.builder.need(kernel, "the kernel of a depthwise convolution"), window.rank
        if content.ndim != rank:
            raise ModelError(f"a depthwise kernel has {rank} axes, this one has shape {list(content.shape)}")
        *extents, channels, multiplier = content.shape
        turned = transposed(self.builder, kernel, (rank - 2, rank - 1, *range(rank - 2)))
        weights = reshaped(self.builder, turned, (channels * multiplier, 1, *extents))
        return self.conv_of(x, weights, bias, window, groups=channels, name=name)

    def conv_of(
        self,
        x: str,
        weights: str,
        bias: str,
        window: SlidingWindow,
        *,
        groups: int = 1,
        name: str = "",
        then: Callable[[str], str] = lambda y: y,
    ) -> str:
        """Add a convolution whose weights have ONNX's layout: (M, C / groups, *window). `groups` 0: taken from the
        shapes. `then`: adds what is done to the result while its channels are first."""
        auto_pad = window.attributes.get("auto_pad", "NOTSET")
        explicit = tuple(window.pads) if auto_pad == "NOTSET" else ()
        op = Conv(tuple(window.strides), explicit, window.steps, groups, auto_pad)
        operands = self._in(x, window.rank), weights, bias
        y = then(self.builder.add_op(op, operands, (self._name(name),))[0])
        return self._out(y, window.rank, name)

    def conv_transpose(
        self,
        x: str,
        kernel: str,
        bias: str,
        window: SlidingWindow,
        sizes: Sequence[int] | None,
        *,
        name: str = "",
    ) -> str:
        """Add a transposed convolution; `kernel` is the constant (*window, M, C), `sizes` the spatial extents of the
        result (None: strides times those of x, plus the reach of the window beyond them if padding is VALID)."""
        content, rank = self.builder.need(kernel, "the kernel of a transposed convolution"), window.rank
        weights = transposed(self.builder, kernel, (rank - 1, rank - 2, *range(rank - 2)))
        attributes: dict[str, Any] = {"strides": tuple(window.strides), "dilations": window.steps}
        if window.padding == "SAME":
            attributes["auto_pad"] = "SAME_UPPER"
            if sizes is not None:
                attributes["output_shape"] = tuple(sizes)
        elif window.padding != "VALID":
            raise UnsupportedError(f"a transposed convolution with padding {window.padding} is not supported")
        else:
            extents = content.shape[: rank - 2]
            reach = [(k - 1) * d + 1 for k, d in zip(extents, window.steps, strict=True)]
            # The rows that a convolution leaves over at the end.
            attributes["output_padding"] = tuple(
                max(0, s - k) if size is None else (size - k) % s
                for size, s, k in zip(sizes or (None,) * len(reach), window.strides, reach, strict=True)
            )
        y = self.builder.add(
            "ConvTranspose", self._in(x, rank), weights, bias, name=self._name(name), **attributes
        )
        return self._out(y, rank, name)

    def pool(self, op: str, x: str, size: Sequence[int], window: SlidingWindow, *, name: str = "") -> str:
        """Add a pool. `op`: "MaxPool" or "AveragePool" (which does not count padding)."""
        more = {"kernel_shape": tuple(size), "strides": tuple(window.strides), **window.attributes}
        return self.on_first(op, x, window.rank, name, **more)

    def max_pool_with_places(
        self, x: str, size: Sequence[int], window: SlidingWindow, names: Sequence[str] = ("", "")
    ) -> tuple[str, str]:
        """Add a max pool that says where each maximum was: in its plane, row * width + column, without padding."""
        more = {"kernel_shape": tuple(size), "strides": tuple(window.strides), **window.attributes}
        first = self._in(x, window.rank)
        y, places = self.builder.add_many("MaxPool", (first,), (self._name(names[0]), ""), **more)
        extents = self.builder.add("Shape", first, start=2)
        plane = self.builder.add("ReduceProd", extents, keepdims=0)
        within = self.builder.add("Mod", places, plane)
        return self._out(y, window.rank, names[0]), self._out(within, window.rank, names[1])

    def on_first(
        self, op: str, x: str, rank: int, name: str = "", operands: Sequence[str] = (), **attributes: Any
    ) -> str:
        """Add any operator whose first input needs channels first, and `operands` of one axis behind it."""
        y = self.builder.add(op, self._in(x, rank), *operands, name=self._name(name), **attributes)
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
        inputs = (x, "", scales) if scales else (x, "", "", as_int64(self.builder, sizes))
        return self.builder.add_many("Resize", inputs, (name,), domain=PRIVATE, axes=axes, **attributes)[0]


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
    return clipped(builder, value, *bounds[activation], name)


# ---- paddings that a graph computes --------------------------------------------------------------------------------
#
# TensorFlow writes a dilated convolution as SpaceToBatchND, a convolution and BatchToSpaceND. Where the size of the
# picture is open, its graph computes by how much to pad the end, so that the block divides the extent, and how much of
# that to crop again. What is left, padding less cropping, is that of the dilated convolution, the same for any size.


def pads_less_crops(builder: GraphBuilder, pads: str, crops: str, block: Sequence[int]) -> Pads:
    """Return (begin, end) of each axis: what is left of the paddings once the crops are taken off.

    Constants are subtracted. Values that follow from shapes are computed for pictures (N, H, W, C) of as many sizes
    as the least common multiple of the block, and must leave the same; else UnsupportedError.
    """
    makers = {name: node for node in builder.nodes for name in node.outputs}
    left = _left(builder, makers, pads, crops, (_HEIGHT, _WIDTH), len(block))
    if builder.known(pads) is None or builder.known(crops) is None:
        period = math.lcm(*block)
        if period > _MOST:
            raise UnsupportedError(
                f"paddings that are computed for a block of {list(block)} are not supported"
            )
        for more in range(1, period + 1):
            # Both have every remainder, and do not go in step.
            size = (_HEIGHT + more, _WIDTH + period - more)
            if _left(builder, makers, pads, crops, size, len(block)) != left:
                raise UnsupportedError("the paddings are computed, and not those of a dilated convolution")
    return left


def _left(
    builder: GraphBuilder, makers: Mapping[str, Node], pads: str, crops: str, size: tuple[int, int], axes: int
) -> Pads:
    both = [_computed(builder, makers, value, size) for value in (pads, crops)]
    for content in both:
        if content.shape != (axes, 2):
            raise ModelError(f"paddings of shape {list(content.shape)} for {axes} axes")
    return [(int(begin), int(end)) for begin, end in both[0] - both[1]]


def _computed(builder: GraphBuilder, makers: Mapping[str, Node], value: str, size: tuple[int, int]) -> Array:
    """The content of a value that follows from the shape of pictures of this size."""
    known: dict[str, Array] = {}

    def content(name: str) -> Array:
        constant = builder.known(name)
        if constant is not None:
            return constant
        if name not in known:
            if name not in makers:
                raise UnsupportedError("the paddings are computed from the content of an input")
            node = makers[name]
            picture = np.broadcast_to(np.float32(0), (1, *size, 1))
            inputs = [picture] if isinstance(node.op, Shape) else [content(each) for each in node.inputs]
            known.update(zip(node.outputs, node.op.reference(*inputs), strict=True))
        return known[name]

    try:
        return content(value).astype(np.int64)
    except RecursionError as error:
        raise UnsupportedError("the paddings are computed by too many operations") from error
    except (ValueError, LookupError, ArithmeticError) as error:
        if isinstance(error, CenoteError):
            raise
        raise UnsupportedError(f"the paddings are not computed from the picture's size ({error})") from error
