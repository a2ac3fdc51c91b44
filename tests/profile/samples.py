"""A profile of one step, and the roofs that it is held against: all made up."""

from __future__ import annotations

from cenote.profile.data import Profile
from cenote.profile.environment import Environment
from cenote.profile.fields import Accounts, ArenaBlock, Finding, Rival, Span, StepStats, Treatment
from cenote.profile.roofs import BandwidthRoof, BarrierRoof, ComputeRoof, Measured, Roofs

ROOFS = Roofs(
    "a processor", "avx2", Measured(3.0, 0.01), Measured(0.25, 0.1),
    (ComputeRoof("float32", 1, Measured(100.0, 0.0)), ComputeRoof("float32", 2, Measured(190.0, 0.0))),
    (BandwidthRoof(1 << 14, "L1", 1 << 15, 1, Measured(200.0, 0.0), Measured(100.0, 0.0)),
     BandwidthRoof(1 << 26, "memory", 0, 1, Measured(10.0, 0.0), Measured(8.0, 0.0))),
    (BarrierRoof(2, Measured(0.5, 0.2)),), 0.9,
)  # fmt: skip
STEP = StepStats(
    0, 0, "kernel", "conv1", "conv(stride=2)", "direct", "%y: f32[1,8]", 1.0, 0.5, 0.9, 0.05, 0.05, (1.0, 0.8), 0, 0.98,
    0.01, (1.0, 1.01), rivals=(Rival("winograd", 2.0),), roof_share=0.5, bound="fma",
)  # fmt: skip
LOSSY = Treatment(
    threads=1,
    precision="fast",
    weights="float16",
    denormals="flush",
    rewrites=("float32",),
    algorithms={"a": "direct"},
)
PROFILE = Profile(
    "net", ("x: float32[1, 8]",), 2, "fast", "0.1.0", "a processor", "avx2", 10, 2.0, 2.01, 0.01,
    Accounts(1.0, 0.5, 0.1, 0.2, 0.21), Environment(2.0, 2, 2, clock_ghz=(3.0, 3.1)), (STEP,), ROOFS,
    timeline=(Span(0, 0, "kernel", 1.0, 2.0, 1),), arena=(ArenaBlock("y", 0, 0, 64, 0, 3),),
    findings=(Finding("imbalance", (0,), 0.1, "max / mean = 1.5", 0.8, "a smaller grain", (0.1, 0.2, 0.3), None,
        (LOSSY, Treatment(threads=1))),),
)  # fmt: skip
