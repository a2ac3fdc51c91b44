"""Quantiles of the normal distribution: the number below which a given share of all numbers lies.

Wichura's quotients of polynomials (The Percentage Points of the Normal Distribution, AS 241, 1988), right to 1e-16,
for shares at least 2^-33 from 0 and 1: his third quotient is for shares beyond e^-25.
"""

from __future__ import annotations

from cenote.codegen import math
from cenote.codegen.builder import Kernel
from cenote.codegen.values import Value

# Numerator and denominator near the middle and toward the ends, lowest power first.
MIDDLE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
     4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3),
)  # fmt: skip
ENDS = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)  # fmt: skip
SPLIT, EDGE, SHIFT = 0.425, 0.180625, 1.6


def normal_quantile(k: Kernel, share: Value) -> Value:
    """The quantile of a float64."""
    middle = share - 0.5
    inner = EDGE - middle * middle
    outer = k.square_root(-math.log(k, k.minimum(share, 1.0 - share))) - SHIFT
    near, far = (
        math.polynomial(k, x, above) / math.polynomial(k, x, below)
        for x, (above, below) in ((inner, MIDDLE), (outer, ENDS))
    )
    return k.select(k.absolute(middle) <= SPLIT, middle * near, math.copy_sign(k, far, middle))
