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

import importlib
from typing import Any

from cenote.core.locks import importing
from cenote.core.options.deprecated import deprecated_name
from cenote.functional.names import FAMILIES

# No file may have the name of a function: it would be found in its place.
_PLACES = {name: family for family, names in FAMILIES.items() for name in names}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        return deprecated_name(__name__, name)
    with importing():
        family = importlib.import_module(f"{__name__}.{_PLACES[name]}")
    globals()[name] = found = getattr(family, name)
    return found


def __dir__() -> list[str]:
    return __all__
