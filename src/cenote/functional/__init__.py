"""Functions on arrays, named and defaulted as in PyTorch: every pooling, elementwise functions, reductions, movement,
selection, indexing, normalisation, products and more.

    import cenote.functional as F

    y = F.max_pool2d(x, 3, stride=2, padding=1)

Inputs are NumPy arrays or offer DLPack (PyTorch, JAX, ...); the result is of the same kind. docs/pooling_semantics.md
says what each pool does where frameworks disagree. Each differentiable pool `f` has an `f_backward`.

A family is imported when one of its functions is first asked for: all of them take a second. `__init__.pyi` says the
same to type checkers, and a test holds the two to each other.
"""

from __future__ import annotations

from cenote.core.locks import on_demand
from cenote.functional.names import FAMILIES

__all__ = sorted(name for names in FAMILIES.values() for name in names)

# No file may have the name of a function: it would be found in its place.
__getattr__ = on_demand(
    __name__, {f"{__name__}.{family}": " ".join(names) for family, names in FAMILIES.items()}
)


def __dir__() -> list[str]:
    return __all__
