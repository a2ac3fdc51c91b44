"""PyTorch's database of operators with samples, and what all comparisons with it need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from cenote.core.types import BFLOAT16

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")
op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db
# It looks for a unittest.TestCase among its callers and reads their sources from the disk: twice a test, 0.03 s each.
torch.testing._internal.common_utils.extract_test_fn = lambda: None
# Before each sample it seeds generators of devices that are not here, and notes a stack trace for three of them: 4 ms.
torch.manual_seed = torch.default_generator.manual_seed
HALVES, INTEGERS = ("float16", "bfloat16"), ("int64", "int32", "int16", "int8", "uint8")


def array(value: Any) -> Any:
    """A tensor as NumPy; other things as they are."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bfloat16:
        return value.detach().view(torch.int16).numpy().view(BFLOAT16)
    return value.detach().numpy()


def in_turns(types: Iterable[str], place: int) -> list[str]:
    """The types that the entry of op_db at this place is compared with in tests: one of 16-bit floats, two of integers,
    and all others."""
    taken = {HALVES[place % 2], INTEGERS[place % 5], INTEGERS[(place + 2) % 5]}
    return [name for name in types if name in taken or name not in (*HALVES, *INTEGERS)]
