"""Transcendental functions of generated code, on float32 vectors of any lanes: at most about 2 ulp (`swish` apart).

The whole range is covered: denormal results, infinities, NaN (which is passed on) and, where the function has one,
the sign of zero. Nothing here needs a fused multiply-add; targets without it lose a fraction of an ulp. `exp`,
`expm1`, `log` and `log1p` take float64 too (2 ulp); the others are float32 alone.

Argument reductions are the classic ones (W. Cody and W. Waite, Software Manual for the Elementary Functions, 1980;
the logarithm's is that of fdlibm). The polynomials are our own weighted minimax fits; the largest relative error of
each stands beside it.
"""

from cenote.codegen.math.exponentials import exp, exp2, exp_falling, expm1, sigmoid, swish, tanh
from cenote.codegen.math.formats import any_lane, copy_sign, polynomial, with_sign
from cenote.codegen.math.logarithms import log, log1p, log1p_of_sum, log2, log10, power, softplus
from cenote.codegen.math.normal import erf, gelu

__all__ = [
    "any_lane",
    "copy_sign",
    "erf",
    "exp",
    "exp2",
    "exp_falling",
    "expm1",
    "gelu",
    "log",
    "log1p",
    "log1p_of_sum",
    "log2",
    "log10",
    "polynomial",
    "power",
    "sigmoid",
    "softplus",
    "swish",
    "tanh",
    "with_sign",
]
