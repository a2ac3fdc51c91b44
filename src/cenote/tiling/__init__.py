"""Tiling of layers for machines with small buffers: planners, an exact search, a simulator, pictures.

plan = cenote.tiling.plan("maxpool", input=(8, 64, 56, 56), kernel=3, stride=2, padding=1, hardware="npu")
y, counts = cenote.tiling.simulate(plan, x)
"""

from __future__ import annotations

from cenote.tiling.arguments import layer_kinds, plan
from cenote.tiling.buffer import PlanError
from cenote.tiling.emission.c_program import emit_c
from cenote.tiling.emission.structure import emit_text
from cenote.tiling.hardware import Hardware, hardware_names, hardware_of
from cenote.tiling.layer import Tile
from cenote.tiling.network import NetworkPlan, plan_model
from cenote.tiling.picture import page, svg
from cenote.tiling.policy import Policy
from cenote.tiling.problem import TilingPlan
from cenote.tiling.shares import CoreShare, shares_of
from cenote.tiling.simulator import reference, simulate

__all__ = [
    "CoreShare",
    "Hardware",
    "NetworkPlan",
    "PlanError",
    "Policy",
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
