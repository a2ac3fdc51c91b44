"""Packed weights of a pointwise convolution times one number per input channel, known only when the model runs.

    item = image, run of filter blocks            emitted, runs come from a table
      for channel:                                emitted
        for vector of the run's filters:          emitted
          y = weights * scale[image, channel]

A gate (squeeze-and-excite) multiplies every channel of a map before a pointwise convolution. The weights are far fewer
numbers than the map: 32 x 16 against 32 x 112 x 112 in EfficientNet's first block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cenote.codegen.builder import Kernel, Parameter
from cenote.codegen.values import F32, I32, I64
from cenote.core.deferred import dataclass
from cenote.core.target import Target
from cenote.core.types import FLOAT32, Array, TensorType
from cenote.kernels.base import Argument, Call, KernelSpec, View, content_of


@dataclass(frozen=True)
class ScaleWeightsSpec(KernelSpec):
    """Kernel that multiplies rows of whole vectors, each by its channel's number."""

    @property
    def words(self) -> tuple[Parameter, ...]:
        pointers = [Parameter(name, F32, pointer=True) for name in ("y", "weights", "scale")]
        table = Parameter("table", I32, pointer=True)  # (first element, elements of a row) of each run
        numbers = ("runs", "channels", "image", "scale_image", "scale_block")
        return (*pointers, table, *(Parameter(name) for name in numbers))

    def emit(self, target: Target) -> Kernel:
        k = self.kernel(target)
        lanes = target.lanes()
        for item in k.range(k.begin, k.end):
            run, image = item % k.number("runs"), item // k.number("runs")
            start, row = (k.pointer("table").load(run * 2 + part).to(I64) for part in range(2))
            x = k.pointer("weights") + start
            y = k.pointer("y") + (start + image * k.number("image"))
            scale = k.pointer("scale") + image * k.number("scale_image")
            for channel in k.range(0, k.number("channels")):
                place = channel // lanes * k.number("scale_block") + channel % lanes
                factor = scale.broadcast(place, lanes)
                for at in k.range(channel * row, (channel + 1) * row, lanes):
                    y.store(x.load(at, lanes) * factor, at)
        return k


def scaled_calls(calls: Sequence[Call], channels: int, scale: View, room: View) -> list[Call]:
    """Return the direct calls of a pointwise convolution with scaled weights, after one call that scales them into
    `room`.

    `scale` is (N, C, 1, …), blocked; `room` has N times the packed weights.
    """
    if not calls:
        return []
    images = scale.shape[0]
    packed = [content_of(call.word("weights")) for call in calls]
    flat = [array.reshape(-1) for array in packed if array is not None]
    total = sum(part.size for part in flat)
    runs, changed, start = [], [], 0
    for call, part in zip(calls, flat, strict=True):
        slab = call.word("slab")
        assert isinstance(slab, int)
        runs += [(begin, slab // channels) for begin in range(start, start + part.size, slab)]
        changed.append(call.changed(weights=room.at(start), weights_image=total))
        start += part.size
    weights: Array = np.concatenate(flat)
    words: dict[str, Argument] = {
        "y": room,
        "weights": weights,
        "scale": scale,
        "table": np.array(runs, np.int32),
        "runs": len(runs),
        "channels": channels,
        "image": total,
        "scale_image": scale.strides[0],
        "scale_block": scale.strides[1],
    }
    first = Call.named(ScaleWeightsSpec(), words, len(runs) * images)
    return [first, *changed]


def room_for(images: int, channels: int, filters: int, lanes: int) -> TensorType:
    """Type of the temporary that `scaled_calls` fills."""
    return TensorType(FLOAT32, (images, channels * -(-filters // lanes) * lanes))
