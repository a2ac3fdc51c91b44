"""Samples of the causes in `diagnosis/causes/compute`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cenote.profile.fields import StepStats
from tests.diagnosis.causes.models import convolution
from tests.diagnosis.causes.sample import Pair, Sample


def _with_denormals() -> Sample:
    """Every other channel of the input is denormal; results are ordinary numbers."""
    model, inputs = convolution(32, 32, 56, kernel=1, count=2)
    scale = np.where(np.arange(32) % 2, 1e-39, 1.0)[:, None, None]
    return Sample(model, {name: (value * scale).astype(np.float32) for name, value in inputs.items()})


def _pinned(algorithm: str) -> dict[str, object]:
    return {"threads": 1, "algorithms": {f"y{index}": algorithm for index in range(3)}}


def _believed(step: StepStats) -> StepStats:
    """The step with an estimate by which it looks best: that of a cost model at fault."""
    return replace(step, estimate_ms=0.95 * min(rival.ms for rival in step.rivals)) if step.rivals else step


COMPUTE = {
    "fma": Pair(
        lambda: Sample(*convolution(128, 128, 56, count=3), {"threads": 1, "precision": "exact"}),
        lambda: Sample(*convolution(128, 128, 56, count=3)),
    ),
    "algorithm": Pair(
        lambda: Sample(*convolution(64, 64, 56, count=3), _pinned("direct")),
        lambda: Sample(*convolution(64, 64, 56, count=3)),
    ),
    "mischoice": Pair(
        lambda: Sample(*convolution(64, 64, 56, count=3), _pinned("winograd_f2"), told=_believed),
        lambda: Sample(*convolution(64, 64, 56, count=3)),
    ),
    "dilation": Pair(
        lambda: Sample(*convolution(512, 512, 28, dilations=[2, 2])),
        lambda: Sample(*convolution(512, 512, 28)),
    ),
    "lanes": Pair(
        lambda: Sample(*convolution(96, 96, 56, group=32, count=3), work=1 / 32),
        lambda: Sample(*convolution(96, 96, 56, count=3)),
    ),
    "dtype": Pair(
        lambda: Sample(*convolution(128, 128, 28, dtype=np.float64)),
        lambda: Sample(*convolution(128, 128, 28)),
    ),
    "denormals": Pair(_with_denormals, lambda: Sample(*convolution(32, 32, 56, kernel=1, count=2))),
}
