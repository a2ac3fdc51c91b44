"""The list of passes, in order. Each is a function Graph -> Graph; the verifier runs after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cenote.core.target import Target
from cenote.core.types import TensorType
from cenote.graph.graph import Graph, Node
from cenote.graph.verify import verify
from cenote.ops.conv.conv import Conv
from cenote.ops.linear.gemm import Gemm
from cenote.passes.activations import recognize_activations
from cenote.passes.attention import recognize_attention
from cenote.passes.chains import fuse_chains
from cenote.passes.channels import compose_channels
from cenote.passes.cleanup import eliminate_common, eliminate_dead, remove_identities
from cenote.passes.fuse import fuse, fuse_gates
from cenote.passes.fuse_products import add_to_products, fuse_products
from cenote.passes.global_pools import recognize_global_pools
from cenote.passes.normalizations import recognize_normalizations
from cenote.passes.outputs import complete_outputs, forget_indices, own_outputs
from cenote.passes.transposes import sink_transposes
from cenote.passes.widen import widen

GraphPass = Callable[[Graph], Graph]


def passes(target: Target, exact: bool, weights: str) -> tuple[GraphPass, ...]:
    """The passes for a target; `exact` forbids Winograd, `weights` is the type that linear layers keep theirs in."""
    return (
        *((forbid_winograd,) if exact else ()),  # before fusing, which asks for it
        say_groups,
        remove_identities,
        sink_transposes,
        widen,
        remove_identities,
        eliminate_common,
        eliminate_dead,
