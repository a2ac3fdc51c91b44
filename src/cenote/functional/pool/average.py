"""Means of windows."""

from __future__ import annotations

from cenote.core.errors import ArgumentError
from cenote.core.limits import within
from cenote.functional.arguments import HERE, TORCH, WindowArguments
from cenote.functional.kinds import Map, Rules
from cenote.functional.record import function
from cenote.functional.types import Accumulate, Numbers, Padding
from cenote.ops.pool.average import AveragePool
from cenote.ops.pool.gradient import PoolGradient


@function(
    ranks=(1, 2, 3),
    twins="Mean of each window over {axes}: see avg_pool2d. Layouts: {layouts}.",
    gradient=PoolGradient,
)
def avg_pool(
    input: Map,
    kernel_size: Numbers,
    stride: Numbers | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool | None = None,
    divisor_override: int | None = None,
    *,
    dilation: Numbers = 1,
    semantics: Rules = TORCH,
    accumulate: Accumulate | None = None,
) -> AveragePool:
    """Mean of each window of (N, C, H, W), (C, H, W) or (H, W), as torch.nn.functional.avg_pool2d.

    input              array of float64, float32, float16, bfloat16, int8, uint8, int16, int32 or int64
    count_include_pad  whether the divisor counts taps on the padding (never those that ceil_mode adds beyond it); by
                       default what the semantics say: True for "torch"
    divisor_override   one divisor for all windows: 1 or more (with "torch" semantics also negative, never 0)
    accumulate         what sums of floats are taken in: None, their own type (16-bit floats: float32), where a sum may
                       overflow though its mean does not, and terms that cancel may take small ones with them;
                       "float64", where neither happens to float32 and narrower types; "compensated", their own type,
                       keeping what each addition loses (Neumaier): terms cancel exactly, sums may overflow
    kernel_size, stride, padding, dilation, ceil_mode, out, layout, threads, semantics: see max_pool2d

    Floats are summed in at least float32. Integers are summed in 64 bits and rounded by the semantics: "torch"
    truncates, "tensorflow" goes to the nearest with halves away from zero, the others to the nearest with halves to
    even. NaN and infinities stay in the windows that hold them.
    """
    include = semantics.include_pad if count_include_pad is None else count_include_pad
    if include and semantics.name == "tensorflow":
        raise ArgumentError("count_include_pad must be False with semantics='tensorflow', got True")
    divisor = 0
    if divisor_override is not None:
        # PyTorch's own samples divide by -2; nobody else allows it.
        least = None if semantics.name == "torch" else 1
        divisor = within(HERE, "divisor_override", divisor_override, least)
        if divisor == 0:
            raise ArgumentError("divisor_override must not be zero, got 0 (leave it None for none)")
    fields = input.windows(WindowArguments(kernel_size, stride, padding, dilation, ceil_mode), semantics)
    return AveragePool(
        **fields,
        count_include_pad=include,
        divisor_override=divisor,
        rounding=semantics.rounding,
        accumulate=input.summed(accumulate),
    )
