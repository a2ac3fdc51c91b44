"""Pools that weight elements by their size, medians, and anti-aliased subsampling."""

from __future__ import annotations

from typing import Annotated, Literal

from cenote.functional.arguments import TORCH, WindowArguments, numbers, seed_of
from cenote.functional.kinds import Kind, Map, Rules
from cenote.functional.record import function
from cenote.functional.types import Numbers, Padding
from cenote.ops.pool.blur import BlurPool
from cenote.ops.pool.gradient import PoolGradient
from cenote.ops.pool.median import MedianPool
from cenote.ops.pool.sparse_gradient import SparseGradient
from cenote.ops.pool.weighted import GemPool, SoftPool, StochasticPool

Seed = Annotated[int, Kind("int", seed_of)]


@function(gradient=PoolGradient)
def soft_pool(input: Map, window: WindowArguments, *, semantics: Rules = TORCH) -> SoftPool:
    """sum x exp(x) / sum exp(x) of each window (Stergiou et al., arXiv 2101.00440); never overflows. Float types.

    Arguments as in max_pool2d; `layout` also sets the number of spatial axes ("NCL" 1, "NCHW" 2, "NCDHW" 3).
    """
    return SoftPool(**input.windows(window, semantics))


@function(gradient=PoolGradient)
def median_pool(input: Map, window: WindowArguments, *, semantics: Rules = TORCH) -> MedianPool:
    """Median of the real elements of each window; of an even number, the mean of the middle two (truncated for
    integers). NaN propagates. Arguments as in max_pool2d, spatial axes by `layout`.
    """
    return MedianPool(**input.windows(window, semantics))


@function(gradient=PoolGradient)
def gem_pool(
    input: Map,
    p: float = 3.0,
    eps: float = 1e-6,
    kernel_size: Numbers | None = None,
    stride: Numbers | None = None,
    padding: Padding = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
    *,
    semantics: Rules = TORCH,
) -> GemPool:
    """Generalised mean (mean max(x, eps)^p)^(1/p) of each window, without kernel_size of the whole map (Radenovic et
    al., arXiv 1711.02512). p = 1 is the mean, inf the maximum. Float types; other arguments as in max_pool2d, spatial
    axes by `layout`; padding takes no part.
    """
    if kernel_size is None:
        input.refuse_empty()
        kernel_size, stride = input.spatial, (1,) * input.rank
    window = WindowArguments(kernel_size, stride, padding, dilation, ceil_mode)
    return GemPool(**input.windows(window, semantics), p=p, eps=eps)


@function(gradient=PoolGradient, indexed=True)
def stochastic_pool(
    input: Map,
    window: WindowArguments,
    return_indices: bool = False,
    *,
    seed: Seed = 0,
    training: bool = True,
    semantics: Rules = TORCH,
) -> StochasticPool:
    """An element of each window, drawn with probability max(x, 0) / sum max(x, 0) (Zeiler and Fergus, arXiv
    1301.3557); with training=False the mean under these probabilities. Where nothing is positive all elements are
    equally likely.

    The draws depend on `seed` (0 to 2^64 - 1) and the output's position alone (Philox-4x32-10): the same bits for any
    number of threads, on every machine. Float types; other arguments as in max_pool2d, spatial axes by `layout`.
    """
    fields = input.windows(window, semantics)
    return StochasticPool(**fields, seed=seed, expected=not training, return_indices=return_indices)


@function(gradient=SparseGradient)
def blur_pool(
    input: Map,
    filter_size: Numbers = 4,
    stride: Numbers = 2,
    *,
    border: Literal["reflect", "replicate", "zeros"] = "reflect",
) -> BlurPool:
    """Filter by binomial weights (3 taps: 1 2 1 / 4), then keep every stride-th element: subsampling that does not
    alias (Zhang, arXiv 1904.11486). The result has ceil(in / stride) elements per axis.

    filter_size  number, or one per axis; (k - 1) // 2 elements are added before and k // 2 after each axis
    border       how: "reflect", "replicate" or "zeros"
    Float types; layout (which sets the spatial axes), out, threads: see max_pool2d.
    """
    window = numbers("filter_size", filter_size, input.rank, 1)
    step = numbers("stride", stride, input.rank, 1)
    input.refuse_empty()
    return BlurPool(window, step, border, input.channels_last)
