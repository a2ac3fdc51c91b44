"""Well-formed files of TensorFlow and TensorFlow Lite that say something else: they load, or an error says why.

What loads and is small is also computed by the operators' references, where errors of Cenote may come too.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cenote.core.errors import CenoteError
from cenote.core.options import Format
from cenote.frontends.formats import import_model
from cenote.frontends.tensorflow.messages import parse_bytes
from cenote.graph.interpreter import evaluate
from cenote.graph.verify import verify
from tests.frontends.fuzzing import share, small_inputs
from tests.frontends.records import change, graph_bytes, lite_bytes, lite_record, record_of
from tests.frontends.tensorflow_archive import contents

_GRAPHS = ["mobilenet.pb", "training.pb", "branches.pb", "functions.pb", "conv_dilated.pb", "slices.pb"]
_LITE = ["unet.tflite", "lite_int8.tflite", "lite_dilated.tflite", "lite_cuts.tflite", "lite_joins.tflite"]
_FILES = contents([*_GRAPHS, *_LITE])
RECORDS = {name: record_of(parse_bytes(_FILES[name], "GraphDef")) for name in _GRAPHS}
RECORDS |= {name: lite_record(_FILES[name]) for name in _LITE}


def survives(content: bytes, form: Format) -> None:
    with contextlib.suppress(CenoteError):
        graph = verify(import_model(content, form).graph)
        if (feed := small_inputs(graph)) is not None:
            with np.errstate(all="ignore"):
                evaluate(graph, feed)


def changed(record: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
    tree = copy.deepcopy(record)
    for _ in range(data.draw(st.integers(1, 3))):
        change(tree, data.draw)
    return tree


@pytest.mark.parametrize("name", _LITE)
def test_records_are_the_files(name: str) -> None:
    """A record that is written again is the same model."""
    written, original = (
        import_model(each, "tflite").graph for each in (lite_bytes(RECORDS[name]), _FILES[name])
    )
    assert written.nodes == original.nodes
    assert written.inputs == original.inputs
    for key, content in original.constants.items():
        np.testing.assert_array_equal(written.constants[key], content)


@pytest.mark.parametrize("name", _GRAPHS)
def test_graph_records_are_the_files(name: str) -> None:
    written, original = (
        import_model(each, "graphdef").graph for each in (graph_bytes(RECORDS[name]), _FILES[name])
    )
    assert written.nodes == original.nodes
    assert written.inputs == original.inputs


@pytest.mark.parametrize("name", _GRAPHS)
@share(len(_GRAPHS))
@given(data=st.data())
def test_changed_graphs(name: str, data: st.DataObject) -> None:
    survives(graph_bytes(changed(RECORDS[name], data)), "graphdef")


@pytest.mark.parametrize("name", _LITE)
@share(len(_LITE))
@given(data=st.data())
def test_changed_lite_models(name: str, data: st.DataObject) -> None:
    survives(lite_bytes(changed(RECORDS[name], data)), "tflite")
