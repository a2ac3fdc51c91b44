"""Tiling of layers for machines with small buffers: planners, an exact search, a simulator, pictures.

plan = cenote.tiling.plan("maxpool", input=(8, 64, 56, 56), kernel=3, stride=2, padding=1, hardware="npu")
y, counts = cenote.tiling.simulate(plan, x)
"""

from __future__ import annotations

from cenote.tiling.arguments import plan
from cenote.tiling.emission.c_program import emit_c
from cenote.tiling.emission.structure import emit_text
from cenote.tiling.execution.buffer import PlanError
from cenote.tiling.execution.simulator import reference, simulate
from cenote.tiling.hardware import Hardware, hardware_names, hardware_of
from cenote.tiling.kinds.families import layer_kinds
from cenote.tiling.layer import Tile
from cenote.tiling.network import NetworkPlan, plan_model
from cenote.tiling.picture import page, svg
from cenote.tiling.policy import Policy
from cenote.tiling.problem import TilingPlan
from cenote.tiling.reduction import ReductionPlan
from cenote.tiling.shares import CoreShare, shares_of

__all__ = [
    "CoreShare",
    "Hardware",
    "NetworkPlan",
    "PlanError",
    "Policy",
    "ReductionPlan",
    "Tile",
    "TilingPlan",
    "emit_c",
    "emit_text",
    "hardware_names",
    "hardware_of",
    "layer_kinds",
    "page",
    "plan",
    "plan_model",
    "reference",
    "shares_of",
    "simulate",
    "svg",
]
