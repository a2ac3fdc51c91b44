"""Valid models that nobody writes by hand: absent and unread outputs, odd names, odd sizes, against ONNX's reference.

Each also goes through a plan file, which must give the same bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import cenote
from tests.odd_models import CASES, SMALL, X


@pytest.mark.parametrize("name", CASES)
def test_odd_models(name: str, tmp_path: Path) -> None:
    proto = CASES[name]
    channels = proto.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    feeds = {"x": X if channels == X.shape[1] else SMALL}
    wanted = dict(
        zip([y.name for y in proto.graph.output], ReferenceEvaluator(proto).run(None, feeds), strict=True)
    )
    loaded = cenote.load(proto, threads=1)
    got = loaded.run(feeds)
    for output, want in wanted.items():
        assert (got[output].dtype, got[output].shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got[output], want, rtol=1e-4, atol=1e-5, err_msg=output)
    loaded.save(tmp_path / "m.cenote")
    again = cenote.load(tmp_path / "m.cenote", threads=1).run(feeds)
    for output, array in got.items():
        np.testing.assert_array_equal(again[output], array)
