"""List of passes, in order. Each is a function Graph -> Graph; the verifier runs after each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from cenote.core.load_options import NO_OPTIONS, LoadOptions
from cenote.core.target import Target
from cenote.core.types import FLOAT64, TensorType, is_float
from cenote.graph.graph import Graph, Node
from cenote.graph.verify import verify
from cenote.ops.conv.conv import Conv
from cenote.ops.conv.conv_transpose import ConvTranspose
from cenote.ops.conv.deform_conv import DeformConv
from cenote.ops.linear.gemm import Gemm
from cenote.ops.linear.matmul import MatMul
from cenote.passes.activations import recognize_activations
from cenote.passes.attention import recognize_attention
from cenote.passes.chains import fuse_chains
from cenote.passes.channels import compose_channels
from cenote.passes.channels_last import read_channels_last
from cenote.passes.cleanup import eliminate_common, eliminate_dead, remove_identities
from cenote.passes.einsum import write_out_einsums
from cenote.passes.extensions.rewrites import rewrites_of
from cenote.passes.fuse import Rewriter, fuse, fuse_gates
from cenote.passes.group_norms import recognize_group_norms
from cenote.passes.normalizations import recognize_normalizations
from cenote.passes.outputs import complete_outputs, forget_indices, own_outputs
from cenote.passes.overwrites import recognize_overwrites
from cenote.passes.points import multiply_points
from cenote.passes.precision.bfloat import compute_in_bfloat
from cenote.passes.precision.parts import multiply_on_tiles
from cenote.passes.precision.widen import widen
from cenote.passes.products.branches import join_branches
from cenote.passes.products.column_scales import scale_columns
from cenote.passes.products.fuse_products import add_to_products, fuse_products, scale_integer_sums
from cenote.passes.products.repeated_maps import convolve_repeated
from cenote.passes.products.resized_parts import convolve_before_resizing
from cenote.passes.products.stored_weights import narrow_weights, store_weights
from cenote.passes.quantization.digits import sum_digits
from cenote.passes.quantization.floats import sum_bytes_to_floats
from cenote.passes.quantization.movement import move_bytes
from cenote.passes.quantization.pools import quantize_means
from cenote.passes.quantization.residuals import add_residuals
from cenote.passes.quantization.softmax import quantize_softmax
from cenote.passes.quantization.sums import dequantize_constants, quantize_sums
from cenote.passes.quantization.tables import tabulate_bytes
from cenote.passes.slices import join_slices
from cenote.passes.stacks import add_stacks
from cenote.passes.transposes import sink_transposes
from cenote.passes.windows.bands import band_convolutions
from cenote.passes.windows.dilation import space_to_batch
from cenote.passes.windows.global_pools import recognize_global_pools, recognize_quantized_pools
from cenote.passes.windows.pads import absorb_pads
from cenote.passes.windows.tokens import turn_tokens

GraphPass = Callable[[Graph], Graph]


def passes(target: Target, options: LoadOptions) -> tuple[GraphPass, ...]:
    """Return the passes for a target. Of the options `precision` "exact" forbids Winograd's and Strassen's algorithms
    and long chains of additions, and takes averages, sums and norms in float64, `weights` is the stored weights' type,
    `rewrites` are the requested ones of `core.options.Rewrite`, `extensions` name those of users."""
    exact, rewrites, weights = options.exact, options.rewrites, options.stored_weights
    narrows_nothing = not exact and options.precision != "bfloat16" and weights == "float32"
    plainly = narrows_nothing and options.precision == "fast"  # transposed convolutions have no other kernels
    # Named algorithms are those of single convolutions.
    is_plain = options.precision in ("fast", "exact") and weights == "float32"
    bands = is_plain and not (options.algorithms or options.extensions)
    return (
        remove_identities,
        *rewrites_of(options),  # of the model's own operators
        *((sum_exactly,) if exact else ()),  # before fusing, which asks for it
        *_passes_of_bytes(target, exact),
        say_groups,
        recognize_overwrites,
        write_out_einsums,
        sink_transposes,
        read_channels_last,
        partial(widen, doubles="float32" in rewrites),
        remove_identities,
        eliminate_common,
        eliminate_dead,
        forget_indices,
        absorb_pads,  # of pools that give no indices
        join_slices,
        scale_integer_sums,
        recognize_activations,
        turn_tokens,
        recognize_normalizations,
        recognize_group_norms,
        recognize_global_pools,  # of the means that belong to no normalisation
        add_stacks,
        eliminate_dead,
        scale_columns,
        fuse_products,
        lambda graph: recognize_attention(graph, target),
        add_to_products,
        # A channel's own weight is near one, those beside it far smaller: too wide a range for narrower types.
        *((join_branches,) if narrows_nothing else ()),
        convolve_before_resizing,
        *((lambda graph: convolve_repeated(graph, target),) if plainly else ()),
        fuse,
        fuse_gates,
        multiply_points,  # with their activations
        # Activations are in the convolutions by now.
        *((space_to_batch,) if "space_to_batch" in rewrites else ()),
        *(() if exact else (forget_tiny_biases,)),
        lambda graph: compose_channels(graph, target.lanes()),
        *((lambda graph: compute_in_bfloat(graph, target),) if options.precision == "bfloat16" else ()),
        *((lambda graph: multiply_on_tiles(graph, target),) if options.precision == "float16x3" else ()),
        *((lambda graph: band_convolutions(graph, target),) if bands else ()),
        fuse_chains,
        *((sum_exactly, accumulate_in_float64) if exact else ()),  # products and sums that passes have made
        eliminate_dead,
        own_outputs,
        lambda graph: complete_outputs(graph, target),
        *((lambda graph: narrow_weights(graph, target, weights),) if weights != "float32" else ()),
    )


def _passes_of_bytes(target: Target, exact: bool) -> tuple[GraphPass, ...]:
    """Return the passes over what is quantised, after which it is computed in integers."""
    return (
        recognize_quantized_pools,
        lambda graph: move_bytes(graph, target),
        eliminate_dead,  # what moved floats reads them no more
        remove_identities,
        eliminate_dead,  # what was moved has left its place, and a float is read once
        *((sum_digits, eliminate_dead) if exact else ()),
        lambda graph: quantize_sums(graph, target),
        lambda graph: sum_bytes_to_floats(graph, target),
        lambda graph: quantize_means(graph, target),
        lambda graph: quantize_softmax(graph, target),
        lambda graph: store_weights(graph, target),
        dequantize_constants,
        tabulate_bytes,  # of which constants are numbers
        remove_identities,
        lambda graph: add_residuals(graph, target),
    )


def sum_exactly(graph: Graph) -> Graph:
    """Make convolutions sum products plainly, and long sums of products in shorter chains, for precision="exact"."""
    nodes = tuple(
        replace(node, op=replace(node.op, exact=True))
        if isinstance(node.op, Conv | ConvTranspose | DeformConv | Gemm | MatMul)
        else node
        for node in graph.nodes
    )
    return graph.replace(nodes=nodes)


def accumulate_in_float64(graph: Graph) -> Graph:
    """Compute averages, sums, means and norms of narrower floats, and statistics of normalisations, in float64 from
    the first term on, for precision="exact". Runs after the passes that recognise pools and normalisations in pieces
    of them.
    """
    nodes = []
    for node in graph.nodes:
        x = graph.type_of(node.inputs[0]) if node.inputs else None
        if x is not None and is_float(x.dtype) and x.dtype != FLOAT64:
            node = replace(node, op=node.op.in_float64() or node.op)
        nodes.append(node)
    return graph.replace(nodes=tuple(nodes))


def say_groups(graph: Graph) -> Graph:
    """Set the groups of convolutions whose file leaves them to the shapes."""
    nodes = tuple(
        replace(
            node,
            op=replace(
                node.op, groups=node.op.shape(graph.types[node.inputs[0]], _weights(graph, node)).groups
            ),
        )
        if isinstance(node.op, Conv) and not node.op.groups
        else node
        for node in graph.nodes
    )
    return graph.replace(nodes=nodes)


def forget_tiny_biases(graph: Graph) -> Graph:
    """Set a convolution's bias below the smallest normal number to zero.

    Training with weight decay leaves filters of zeros with a bias of 1e-39, say. All values of such a channel are
    then denormal, and each product with one takes the processor some 150 cycles: a text detector with up to 500 of
    them among 768 channels took four times as long. A sum changes by less than 1.2e-38.
    """
    rewriter = Rewriter(graph)
    for index, node in enumerate(graph.nodes):
        if not isinstance(node.op, Conv | ConvTranspose) or len(node.inputs) < 3:
            continue
        bias = graph.constants.get(node.inputs[2])
        if bias is None or bias.dtype != np.float32:
            continue
        denormal = (np.abs(bias) < np.finfo(np.float32).smallest_normal) & (bias != 0)
        if denormal.any():
            name = rewriter.constant(f"{node.inputs[2]}~normal", np.where(denormal, np.float32(0), bias))
            rewriter.nodes[index] = replace(node, inputs=(*node.inputs[:2], name, *node.inputs[3:]))
    return rewriter.result()


def _weights(graph: Graph, node: Node) -> TensorType:
    kind = graph.type_of(node.inputs[1])
    assert kind is not None
    return kind


def optimize(
    graph: Graph,
    target: Target,
    options: LoadOptions = NO_OPTIONS,
    *,
    inferred: bool = False,
) -> Graph:
    """Run every pass over a specialised graph. `inferred`: its types come from `Op.infer`, because `specialize` has
    just called it; only nodes that passes make or whose values they change are inferred again."""
    verified = verify(graph, types=False) if inferred else None
    for graph_pass in passes(target, options):
        verified = graph = verify(graph_pass(graph), since=verified)
    return graph
