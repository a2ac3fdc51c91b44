"""The Python API: what a loaded model takes, gives, refuses, and keeps."""

from __future__ import annotations

import copy
import gc
import os
import threading
import weakref
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import cenote
import cenote.compiler.compile
import cenote.runtime.memory
from cenote.codegen import jit
from cenote.core.errors import ArgumentError, CapacityError, InputError, ModelError
from cenote.frontends.onnx import load_onnx
from cenote.graph.interpreter import evaluate
from tests.onnx_texts import NETWORK, TWO, noise, parsed

CONVOLUTIONS = NETWORK[: NETWORK.index("d = ")].replace("float[N,10] y", "float[N,20,P,Q] c") + "}"


def reference(model: onnx.ModelProto, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    return evaluate(load_onnx(model).graph, inputs)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.fixture(scope="module")
def network() -> cenote.Model:
    return cenote.load(parsed(NETWORK), threads=1)


# ---- calling --------------------------------------------------------------------------------------------------------


def test_inputs_by_position_by_name_and_as_a_dict() -> None:
    model = cenote.load(parsed(TWO), threads=1)
    a, b = noise(3, 4), noise(3, 4)
    for outputs in (model(a, b), model(a, b=b), model(b=b, a=a)):
        assert type(outputs) is tuple
        np.testing.assert_array_equal(outputs[0], a + b)
        np.testing.assert_array_equal(outputs[1], a - b)
    named = model.run({"b": b, "a": a})
    assert list(named) == ["s", "d"]
    np.testing.assert_array_equal(named["d"], a - b)
    assert [str(declared) for declared in model.inputs] == ["a: float32[N,4]", "b: float32[N,4]"]
    assert [(declared.name, declared.shape) for declared in model.outputs] == [("s", (3, 4)), ("d", (3, 4))]
    assert "cenote.Model" in repr(model)


def test_one_output_is_an_array_and_results_are_fresh(network: cenote.Model) -> None:
    x = noise(2, 3, 8, 8)
    first = network(x)
    assert type(first) is np.ndarray
    close(first, reference(parsed(NETWORK), x=x)["y"])
    kept = first.copy()
    network(noise(2, 3, 8, 8))
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(network(x), kept)


VARIANTS = {
    "not contiguous": lambda x: np.repeat(x, 2, axis=3)[..., ::2],
    "Fortran": np.asfortranarray,
    "negative strides": lambda x: np.ascontiguousarray(x[:, :, ::-1, ::-1])[:, :, ::-1, ::-1],
    "big-endian": lambda x: x.astype(">f4"),
    "big-endian and transposed": lambda x: x.astype(">f4").transpose(3, 2, 1, 0).copy().transpose(3, 2, 1, 0),
    "broadcast": lambda x: np.broadcast_to(x[:1, :1, :1, :1], x.shape),
    "unaligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape),
    "a subclass": lambda x: x.view(type("Mine", (np.ndarray,), {})),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_any_memory_is_accepted(network: cenote.Model, name: str) -> None:
    x = VARIANTS[name](noise(2, 3, 6, 6))
    y = network(x)
    assert type(y) is np.ndarray
    np.testing.assert_array_equal(y, network(np.array(x, np.float32, order="C")))


def test_read_only_inputs_are_read_only(network: cenote.Model) -> None:
    x = noise(1, 3, 6, 6)
    x.flags.writeable = False
    np.testing.assert_array_equal(network(x), network(x.copy()))


def test_dlpack_in_and_out(network: cenote.Model) -> None:
    torch = pytest.importorskip("torch")
    x = noise(2, 3, 8, 8)
    y = network(torch.from_numpy(x))
    assert isinstance(y, torch.Tensor)
    np.testing.assert_array_equal(y.numpy(), network(x))
    y = network(torch.from_numpy(x.transpose(0, 2, 3, 1).copy()).permute(0, 3, 1, 2))
    np.testing.assert_array_equal(y.numpy(), network(x))
    assert type(network.run({"x": torch.from_numpy(x)})["y"]) is np.ndarray
    with pytest.raises(InputError, match=r"input 'x': asks for a gradient"):
        network(torch.from_numpy(x).requires_grad_())


def test_nan_and_infinity_flow_through(network: cenote.Model) -> None:
    x = noise(2, 3, 8, 8)
    x[0, 1, 2, 3] = np.nan
    y = network(x)
    assert np.isnan(y[0]).all()
    close(y[1:], reference(parsed(NETWORK), x=x[1:])["y"])


# ---- what is refused ------------------------------------------------------------------------------------------------

GOOD = np.zeros((1, 3, 8, 8), np.float32)
BAD_CALLS = {
    "wrong name": (lambda m: m(z=GOOD), r"'z' is no input of the model; its inputs: x: float32\[N,3,H,W\]"),
    "a name too many": (lambda m: m(GOOD, z=GOOD), "'z' is no input of the model"),
    "missing": (lambda m: m(), "input 'x' is missing"),
    "too many": (lambda m: m(GOOD, GOOD), r"2 inputs given, the model has 1: x"),
    "twice": (lambda m: m(GOOD, x=GOOD), "input 'x' is given twice"),
    "rank": (lambda m: m(GOOD[0]), r"input 'x' has shape \[3, 8, 8\], the model takes x: float32\[N,3,H,W\]"),
    "shape": (lambda m: m(GOOD[:, :2]), r"input 'x' has shape \[1, 2, 8, 8\]"),
    "dtype": (lambda m: m(GOOD.astype(np.float64)), r"input 'x' is float64.*astype\('float32'\)"),
    "a list of lists": (lambda m: m([[1.0]]), r"input 'x' has shape \[1, 1\], the model takes x: float32"),
    "a list of words": (lambda m: m(["one"]), r"input 'x': holds 'one' \(str\), which is no float32"),
    "None": (lambda m: m(None), "input 'x': is a NoneType"),
    "masked": (lambda m: m(np.ma.masked_array(GOOD)), "input 'x': is a masked array"),
    "strings": (lambda m: m(np.array(["a"])), "input 'x' is <U1"),
    "run": (lambda m: m.run({"y": GOOD}), "'y' is no input of the model"),
    "run without names": (lambda m: m.run(GOOD), "run takes a dict of arrays by input name, not ndarray"),
    "run nothing": (lambda m: m.run(None), "run takes a dict of arrays by input name, not NoneType"),
    "plan_for": (lambda m: m.plan_for({}), "a shape is missing for input 'x'"),
    "plan_for more": (lambda m: m.plan_for({"x": (1, 3, 8, 8), "z": ()}), "'z' is no input of the model"),
    "plan_for a list": (lambda m: m.plan_for([(1, 3, 8, 8)]), "plan_for takes the shapes by input name"),
    "plan_for half": (lambda m: m.plan_for({"x": (1, 3, 8.5, 8)}), r"input 'x' must be whole numbers.*8\.5"),
    "plan_for None": (lambda m: m.plan_for({"x": (1, 3, None, 8)}), r"input 'x' must be whole numbers.*None"),
    "plan_for a number": (lambda m: m.plan_for({"x": 5}), r"input 'x' must be whole numbers.*not 5"),
    "plan_for minus": (
        lambda m: m.plan_for({"x": (1, 3, -8, 8)}),
        r"input 'x' has a negative size: \[1, 3, -8, 8\]",
    ),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_input_is_named(network: cenote.Model, name: str) -> None:
    call, message = BAD_CALLS[name]
    with pytest.raises(InputError, match=message):
        call(network)


def test_a_model_is_copied_by_sharing(network: cenote.Model) -> None:
    assert copy.copy(network) is network
    assert copy.deepcopy({"model": network})["model"] is network


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_of_nothing(batch: int, threads: int) -> None:
    y = cenote.load(parsed(NETWORK), threads=threads)(np.zeros((batch, 3, 8, 8), np.float32))
    assert y.shape == (batch, 10)
    assert y.dtype == np.float32


@pytest.mark.parametrize("shape", [(1 << 40, 3, 1 << 20, 8), (1 << 30, 3, 1 << 30, 1 << 30)])
def test_sizes_that_overflow(network: cenote.Model, shape: tuple[int, ...]) -> None:
    with pytest.raises(CapacityError, match=r"larger than memory can be|use a smaller input"):
        network.plan_for({"x": shape})


@pytest.mark.parametrize("node", ["Pad (x, amounts)", "Tile (x, amounts)"])
def test_sizes_in_errors_are_numbers(node: str) -> None:
    """Also of a model of any size, whose shapes are expressions."""
    text = f"g (float[N, M] x) => (float[A, B] y) <int64[{{}}] amounts = {{{{{{}}}}}}> {{{{ y = {node} }}}}"
    amounts = [0, 0, 0, 1 << 61] if node.startswith("Pad") else [1 << 40, 1 << 30]
    text = text.format(len(amounts), ", ".join(map(str, amounts)))
    with pytest.raises(CapacityError, match=r"shape \[[0-9]+, [0-9]+\] is larger than memory can be"):
        cenote.load(parsed(text), threads=1)(np.ones((1, 1), np.float32))


def test_more_memory_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model = cenote.load(parsed(NETWORK), threads=1)
    monkeypatch.setattr(cenote.runtime.memory, "available_bytes", lambda: 100_000)
    with pytest.raises(CapacityError, match="the arena of the model's intermediate values: needs"):
        model(noise(16, 3, 96, 96))
    monkeypatch.undo()
    x = noise(16, 3, 96, 96)
    close(model(x), reference(parsed(NETWORK), x=x)["y"])


def test_an_input_too_large_to_copy() -> None:
    model = cenote.load(parsed("g (float[N] x) => (float[N] y) { y = Relu(x) }"), threads=1)
    with pytest.raises(CapacityError):
        model(np.broadcast_to(np.float32(0), (1 << 46,)))


@pytest.mark.parametrize(
    ("option", "value"),
    [("threads", 0), ("threads", -1), ("threads", 1.5), ("threads", True), ("threads", 1000), ("threads", "2"),
     ("precision", "low"), ("precision", None), ("weights", "int3")],
)  # fmt: skip
def test_bad_options(option: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=option):
        cenote.load(parsed(TWO), **{option: value})


def test_options_show() -> None:
    model = cenote.load(parsed(TWO), threads=np.int64(2), precision="exact")
    assert (model.threads, model.precision) == (2, "exact")


# ---- shapes ---------------------------------------------------------------------------------------------------------


def test_another_size_needs_a_plan_but_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    source = parsed(CONVOLUTIONS)
    model = cenote.load(source, threads=1)
    with pytest.raises(InputError, match="symbolic dimensions"):
        model.plan.describe()
    model(noise(2, 3, 16, 16))
    kernels = set(jit._addresses)
    monkeypatch.setattr(jit, "_compile", lambda *_: pytest.fail("a kernel was compiled"))
    for batch in (1, 3, 7):
        x = noise(batch, 3, 16, 16)
        close(model(x), reference(source, x=x)["c"])
    assert set(jit._addresses) == kernels


def test_other_heights_and_widths() -> None:
    source = parsed(NETWORK)
    model = cenote.load(source, threads=1)
    for height, width in ((8, 8), (9, 14), (31, 5), (2, 2)):
        x = noise(1, 3, height, width)
        close(model(x), reference(source, x=x)["y"])


def test_plans_are_kept_and_the_longest_unused_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cenote.stages.stage.Stage.nbytes", 10_000_000)
    monkeypatch.setenv("CENOTE_SHAPES_KEPT", "30")
    model = cenote.load(parsed(TWO), threads=1)
    plans = {rows: model.plan_for({"a": (rows, 4), "b": (rows, 4)}) for rows in (1, 2, 3)}
    model(noise(1, 4), noise(1, 4))
    assert model.plan is plans[1], "the plan used last"
    model(noise(4, 4), noise(4, 4))
    assert model.plan_for({"a": (1, 4), "b": (1, 4)}) is plans[1]
    assert model.plan_for({"a": (3, 4), "b": (3, 4)}) is plans[3]
    assert model.plan_for({"a": (2, 4), "b": (2, 4)}) is not plans[2], "was unused for longest"
    assert len(model._stages) == 3


def test_plans_of_one_model_share_weights() -> None:
    model = cenote.load(parsed(CONVOLUTIONS), threads=1)
    one, two = (model.plan_for({"x": (batch, 3, 8, 8)}) for batch in (1, 2))
    weights = [
        {id(array) for array in plan.program.constants if array.dtype == np.float32} for plan in (one, two)
    ]
    assert weights[0] == weights[1] != set()


DATA_DEPENDENT = {
    "NonZero": """g (float[N] x) => (float[M] y, float[N] z)
        { i = NonZero(x)  t = Transpose(i)  r = Relu(x)  v = GatherND(r, t)  y = Neg(v)  z = Abs(x) }""",
    "a computed shape": """g (float[N] x, int64[R] s) => (float[A,B] y) { r = Relu(x)  t = Add(s, s)
        y = Reshape(r, t) }""",
    "two cuts": """g (float[N] x) => (float[M] y) { i = NonZero(x)  t = Transpose(i)  v = GatherND(x, t)  w = Relu(v)
        j = NonZero(w)  u = Transpose(j)  y = GatherND(w, u) }""",
}  # fmt: skip


@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_shapes_that_depend_on_data(name: str) -> None:
    source = parsed(DATA_DEPENDENT[name])
    model = cenote.load(source, threads=1)
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal(12).astype(np.float32)
        x[::3] = 0
        inputs = {"x": x}
        if name == "a computed shape":
            inputs["s"] = np.array([[1, 3], [3, 1]][seed % 2])
        for output, want in reference(source, **inputs).items():
            np.testing.assert_array_equal(model.run(inputs)[output], want)


def test_stages_of_known_contents_are_kept() -> None:
    model = cenote.load(parsed(DATA_DEPENDENT["a computed shape"]), threads=1)
    x = noise(12)
    for shape in ([1, 3], [3, 1], [1, 3]):
        model(x, np.array(shape))
    (stage,) = model._stages.values()
    assert len(stage.following) == 2


# ---- outputs that are something else too ----------------------------------------------------------------------------

OUTPUTS = {
    "an input": "g (float[2,3] x) => (float[2,3] y) { y = Identity(x) }",
    "a constant": "g (float[2,3] x) => (float[2] y, float[2,3] z) <float[2] y = {1, 2}> { z = Relu(x) }",
    "a folded constant": """g (float[2,3] x) => (int64[2] y, float[2,3] z) { y = Shape(x)  z = Relu(x) }""",
    "the same value twice": "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Relu(x)  z = Identity(y) }",
    "equal computations": "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Relu(x)  z = Relu(x) }",
    "a view of an input": "g (float[2,3] x) => (float[2,3] y) { y = Flatten(x) }",
    "a view of another output": "g (float[2,1,3] x) => (float[2,1,3] y, float[2,3] z) { y = Relu(x) z = Flatten(y) }",
    "parts of an input": "g (float[4,3] x) => (float[2,3] y, float[2,3] z) { y, z = Split<axis=0, num_outputs=2>(x) }",
    "read again": "g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Relu(x)  a = Neg(y)  z = Add(a, y) }",
    "a concat of inputs and outputs": """g (float[2,3] x) => (float[2,3] y, float[6,3] z) { y = Relu(x)
        z = Concat<axis=0>(x, y, x) }""",
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_memory_of_their_own(name: str) -> None:
    source = parsed(OUTPUTS[name])
    model = cenote.load(source, threads=1)
    x = noise(*[d.dim_value for d in source.graph.input[0].type.tensor_type.shape.dim])
    want, before = reference(source, x=x), x.copy()
    for _ in range(2):
        got = model.run({"x": x})
        for output, y in want.items():
            np.testing.assert_array_equal(got[output], y)
            assert not np.shares_memory(got[output], x)
            got[output][...] = 77  # the caller's to spoil
    np.testing.assert_array_equal(x, before)


def test_an_output_listed_twice_is_refused() -> None:
    source = parsed("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    source.graph.output.append(source.graph.output[0])
    with pytest.raises(ModelError, match="twice"):
        cenote.load(source)


# ---- threads and processes ------------------------------------------------------------------------------------------


def test_bits_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cenote.compiler.compile, "WORTH_THREADS", 0.0)
    x = noise(3, 3, 33, 21)
    results = [cenote.load(parsed(NETWORK), threads=threads)(x) for threads in (1, 2, 3, 1, 2)]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_several_python_threads_run_one_model(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cenote.compiler.compile, "WORTH_THREADS", 0.0)
    monkeypatch.setenv("CENOTE_SHAPES_KEPT", "0")  # plans come and go meanwhile
    model = cenote.load(parsed(NETWORK), threads=threads)
    inputs = [noise(1 + i % 3, 3, 8 + i, 9) for i in range(6)]
    wanted = [cenote.load(parsed(NETWORK), threads=1)(x) for x in inputs]
    faults: list[str] = []

    def work(first: int) -> None:
        try:
            for i in range(30):
                index = (first + i) % len(inputs)
                if not np.array_equal(model(inputs[index]), wanted[index]):
                    faults.append(f"input {index} in thread {first}")
        except Exception as error:
            faults.append(repr(error))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where another test imported it
@pytest.mark.parametrize("threads", [1, 2])
def test_after_a_fork(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cenote.compiler.compile, "WORTH_THREADS", 0.0)
    model = cenote.load(parsed(NETWORK), threads=threads)
    x, z = noise(2, 3, 12, 12), noise(1, 3, 10, 10)
    want = model(x)
    child = os.fork()
    if child == 0:
        try:
            good = np.array_equal(model(x), want) and model(z).shape == (1, 10)
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    np.testing.assert_array_equal(model(x), want)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_dropped_model_frees_its_memory() -> None:
    model = cenote.load(parsed(NETWORK), threads=2)
    model(noise(1, 3, 8, 8))
    gone: list[int] = []
    weakref.finalize(model, gone.append, 1)
    del model
    gc.collect()
    assert gone == [1]


def test_one_plan_serves_maps_of_any_size_beside_any_batch() -> None:
    """The batch and the height of a small map were compared with each other, which split the sizes in two."""
    model = cenote.load(parsed(NETWORK), threads=1)
    for batch, height, width in ((4, 9, 14), (2, 31, 23), (31, 12, 11), (12, 40, 9), (9, 9, 9)):
        model(noise(batch, 3, height, width))
    assert len(model._classes.plans) == 1


def test_shapes_that_are_refused_do_not_spoil_plans_for_others() -> None:
    source = parsed(
        """g (float[N,3,H,W] x) => (float[A,B,C,D] y) { y = MaxPool<kernel_shape = [4, 4]>(x) }"""
    )
    model = cenote.load(source, threads=1)
    with pytest.raises(cenote.ShapeError):
        model(noise(1, 3, 2, 2))
    for height in (9, 12, 15):
        model(noise(1, 3, height, 20))
    assert len(model._classes.plans) == 1
