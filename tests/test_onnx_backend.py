"""ONNX's own backend tests (onnx.backend.test) through `cenote.backend`: every case that runs on a CPU.

data/onnx_unsupported.txt lists the cases that raise UnsupportedError, with the reason. The list is checked both ways,
so it can only shrink: a listed case that passes fails this test, and so does an unlisted one that does not pass.

    python -m tests.test_onnx_backend        counts, and the list written anew
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import cenote.backend
from cenote.core.errors import ArgumentError, InputError, UnsupportedError
from cenote.core.types import TensorType
from cenote.frontends.onnx import load_onnx
from cenote.graph.verify import verify
from cenote.passes.specialize import specialize
from tests.onnx_cases import RANDOM, cases, data_sets, specified

LIST = Path(__file__).parent / "data" / "onnx_unsupported.txt"
SHARDS = 8
# Two float16 ulps, as onnx allows two of bfloat16: its own float16 attention is 2 ulps from the exact answer.
HALF = 2.0**-9
# Zeros of the inverse transform are exact here, and rounding noise of 1.9e-7 in the expected values.
ABSOLUTE = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}
node = helper.make_node


def outcome(case: Any) -> tuple[str, str]:
    """("passed", ""), ("unsupported", reason), or ("failed", what is wrong)."""
    from onnx.backend.test.runner import Runner

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
            prepared = cenote.backend.prepare(model, threads=1)
            for inputs, expected in data_sets(case):
                half = any(getattr(y, "dtype", None) == np.float16 for y in expected)
                rtol = max(case.rtol, HALF) if half else case.rtol
                atol = ABSOLUTE.get(case.name, case.atol)
                found = prepared.run(inputs)
                if RANDOM.match(case.name):
                    assert [(y.dtype, y.shape) for y in found] == [(y.dtype, y.shape) for y in expected]
                    continue
                stated = [[specified(case, inputs, y) for y in values] for values in (expected, found)]
                Runner.assert_similar_outputs(*map(flat, stated), rtol, atol)
    except UnsupportedError as error:
        return "unsupported", str(error)
    except Exception as error:
        return "failed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return "passed", ""


def flat(values: Any) -> list[Any]:
    """Sequences written out behind their lengths: ONNX's own comparison fails on a scalar in one."""
    written = ([np.array(len(y)), *y] if isinstance(y, list) else [y] for y in values)
    return [y for row in written for y in row]


def listed() -> tuple[str, dict[str, str]]:
    """The onnx version the list was made with, and reason by case."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    entries = (line.partition(": ") for line in lines[1:] if line.strip())
    return lines[0].rpartition(" ")[2], {name: reason for name, _, reason in entries}


@pytest.mark.parametrize("shard", range(SHARDS))
def test_backend_cases(shard: int) -> None:
    version, unsupported = listed()
    complaints = []
    for name in sorted(cases())[shard::SHARDS]:
        kind, text = outcome(cases()[name])
        if kind == "failed":
            complaints.append(f"{name} failed: {text}")
        elif kind == "passed" and name in unsupported:
            complaints.append(f"{name} passes now: take it off {LIST.name}")
        elif kind == "unsupported" and name not in unsupported and version == onnx.__version__:
            complaints.append(f"{name} is not on {LIST.name}, but unsupported: {text}")
    assert not complaints, "\n".join(complaints)


def test_list_has_only_real_cases_and_most_pass() -> None:
    version, unsupported = listed()
    if version == onnx.__version__:
        assert sorted(set(unsupported) - set(cases())) == []
        head = LIST.read_text(encoding="utf-8").partition("\n")[0]
        assert f"of {len(cases()):,} cases these raise" in head
    assert all(unsupported.values())
    by_shape = [name for name in cases() if RANDOM.match(name)]
    assert len(by_shape) <= 10
    assert len(cases()) - len(unsupported) - len(by_shape) >= 1971  # compared number by number


def test_light_topologies_are_typed() -> None:
    """The nine networks of the onnx wheel: load, specialise, verify; their answers are another test's."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    paths = sorted(folder.glob("*.onnx"))
    assert len(paths) == 9
    for path in paths:
        graph = load_onnx(path).graph
        types = {
            d.name: TensorType.of(d.dtype, [int(extent or 1) for extent in d.shape or ()])
            for d in graph.inputs
        }
        stage = specialize(graph, types)
        assert stage.rest is None
        verify(stage.graph)


X = np.array([[-1, 0, 2]], np.float32)


def test_run_node() -> None:
    outputs = cenote.backend.run_node(node("Relu", ["x"], ["y"]), [X])
    np.testing.assert_array_equal(outputs[0], [[0, 0, 2]])
    np.testing.assert_array_equal(outputs["y"], outputs[0])
    (added,) = cenote.backend.run_node(node("Add", ["a", "b"], ["c"]), {"a": X, "b": X}, opset_version=13)
    np.testing.assert_array_equal(added, 2 * X)
    (doubled,) = cenote.backend.run_node(node("Add", ["a", "a"], ["c"]), [X])
    np.testing.assert_array_equal(doubled, 2 * X)


def test_prepare_once_run_often_by_position_name_or_alone() -> None:
    graph = helper.make_graph(
        [node("Neg", ["x"], ["1"]), node("Abs", ["x"], ["b"])],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3])],
        [onnx.ValueInfoProto(name="1"), onnx.ValueInfoProto(name="b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    prepared = cenote.backend.prepare(model, "CPU:0")
    for inputs in ([X], {"x": X}, X, (X,)):
        outputs = prepared.run(inputs)
        assert len(outputs) == 2
        np.testing.assert_array_equal(outputs["1"], -X)
        np.testing.assert_array_equal(outputs["b"], abs(X))
    np.testing.assert_array_equal(cenote.backend.run_model(model, [X])[1], abs(X))
    with pytest.raises(InputError, match="2 inputs are given"):
        prepared.run([X, X])


def test_what_is_not_supported_is_refused() -> None:
    assert cenote.backend.supports_device("CPU")
    assert not cenote.backend.supports_device("CUDA")
    relu = helper.make_model(helper.make_graph([node("Relu", ["x"], ["y"])], "g", [], []))
    with pytest.raises(ArgumentError, match="CUDA"):
        cenote.backend.prepare(relu, "CUDA")
    with pytest.raises(ArgumentError, match="speed"):
        cenote.backend.prepare(relu, speed=3)
    with pytest.raises(NotImplementedError, match="StringNormalizer"):
        cenote.backend.run_node(node("StringNormalizer", ["x"], ["y"]), [np.array(["a"], object)])
    assert not cenote.backend.is_compatible(relu)


def test_the_class_fits_the_runner_of_onnx() -> None:
    from onnx.backend.test import BackendTest

    cases()
    suite = (
        BackendTest(cenote.backend.CenoteBackend, __name__)
        .include("test_(relu|maxpool_2d_default)_cpu")
        .test_cases
    )
    ran = [
        name
        for case in suite.values()
        for name in vars(case)
        if re.match("test_(relu|maxpool_2d_default)_cpu", name)
    ]
    assert sorted(ran) == ["test_maxpool_2d_default_cpu", "test_relu_cpu"]
    for name in ran:
        suite["OnnxBackendNodeModelTest"](name).debug()


def rewrite_list() -> None:
    """Write the list from what happens now; print counts and failures."""
    results = {name: outcome(case) for name, case in sorted(cases().items())}
    lines = [
        f"# of {len(results):,} cases these raise UnsupportedError, counted with onnx {onnx.__version__}"
    ]
    for name, (kind, text) in results.items():
        if kind == "unsupported":
            reason = re.sub(r"^model '[^']*': |node ('[^']*' \(\w+\)|\S+ -> [^:]*): ", "", text)
            lines.append(f"{name}: {reason.split(';')[0]}")
        elif kind == "failed":
            print(name, text)
    LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(dict(Counter(kind for kind, _ in results.values())))


if __name__ == "__main__":
    rewrite_list()
