"""Graphs whose plan holds for all sizes: batch, height and width are open, and no question parts one size from another.
Nothing is compiled: what planning asked for the first size is put to the others, for two machines unlike each other."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import cenote
from cenote.codegen import jit
from cenote.compiler.barriers import StepKind
from cenote.compiler.compile import Compilation, planned_sized
from cenote.core.formulas.checks import Evaluation
from cenote.core.load_options import LoadOptions
from cenote.core.target import Target
from cenote.core.trace import Trace
from cenote.frontends.onnx import load_onnx
from cenote.passes.specialize import specialize
from cenote.runtime.signature import Signature
from tests.any_shape_graphs import fixed
from tests.any_shape_runs import check
from tests.targets import LARGE, SMALL

SIZES = [(1, 65, 80), (4, 66, 81), (1, 64, 112), (3, 80, 65), (2, 97, 64)]
CHANNELS, WIDE = 16, 32
WEIGHTS = {
    "w": (CHANNELS, CHANNELS, 1, 1), "v": (CHANNELS, CHANNELS, 1, 1), "u": (WIDE, CHANNELS, 1, 1),
    "k": (WIDE, WIDE, 1, 1), "t": (CHANNELS, CHANNELS, 3, 3), "far": (CHANNELS, 1, 3, 3),
}  # fmt: skip
# Pads as TensorFlow's "same" computes them: max((ceil(h / 2) - 1) * 2 + 3 - h, 0), half of it in front.
PADS = """s = Shape(x)  hw = Slice(s, two, four)  f = Cast<to=1>(hw)  half = Div(f, twof)  up = Ceil(half)
    less = Sub(up, onef)  back = Mul(less, twof)  reach = Add(back, threef)  more = Sub(reach, f)  pos = Relu(more)
    all = Cast<to=7>(pos)  front = Div(all, two)  rest = Sub(all, front)  none = Mul(two2, zero)
    pads = Concat<axis=0>(none, front, none, rest)"""
GRAPHS = {
    "pools that round up": """y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)
        z = AveragePool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(y)""",
    "squeeze and excitation": """a = GlobalAveragePool(x)  b = Conv(a, w)  c = Relu(b)  d = Conv(c, v)
        e = HardSigmoid(d)  f = Mul(x, e)  z = Conv(f, u)""",
    "parts of a map and their sum": """a, b = Split<axis=1, num_outputs=2>(x)  c = Relu(a)  d = Concat<axis=1>(c, b)
        z = Add(d, x)""",
    "slices of channels": """a = Slice(x, zero1, eight, axis)  b = Slice(x, eight, sixteen, axis)  c = Mul(a, b)
        z = Concat<axis=1>(c, a)""",
    "pads that are computed": f"""{PADS}  y = Pad(x, pads)  z = Conv<strides=[2,2]>(y, u)""",
    "a grid": """s = Shape(x)  w1 = Gather(s, three)  r = Range(zero, w1, one)  q = Cast<to=1>(r)  z = Add(x, q)""",
    "zeros of the map's size": """s = Shape(x)  o = ConstantOfShape(s)  a = Relu(x)  z = Add(a, o)""",
    "channels shuffled": """s = Shape(x)  n = Slice(s, zero1, one1)  hw = Slice(s, two, four)
        deep = Concat<axis=0>(n, groups, hw)  a = Reshape(x, deep)  b = Transpose<perm=[0,2,1,3,4]>(a)
        z = Reshape(b, s)""",
    "a mean of rows": """a = Transpose<perm=[0,2,3,1]>(x)  z = ReduceMean<keepdims=0>(a, axes)""",
    "tokens twice": """a = Reshape(x, flat)  b = Transpose<perm=[0,2,1]>(a)  c = Concat<axis=1>(b, b)
        d = Slice(c, one1, last, axis)  z = Concat<axis=1>(d, b)""",
    "windows apart": """a = Conv<pads=[2,2,2,2], dilations=[2,2]>(x, t)  b = Relu(a)
        c = Conv<pads=[60,60,60,60], dilations=[60,60]>(b, t)
        d = Conv<pads=[48,48,48,48], dilations=[48,48], group=16>(c, far)  z = Add(d, x)""",
    "a part written by elements": """s = Shape(x)  b = Gather(s, zero)  c = Gather(s, one)  h = Gather(s, two0)
        m = Gather(s, three)  rn = Range(zero, b, one)  rc = Range(zero, c, one)  rh = Range(zero, h, one)
        rw = Range(zero, m, one)  in = Slice(rw, one1, last, zero1)  ln = Reshape(rn, along_n)
        lc = Reshape(rc, along_c)  lh = Reshape(rh, along_h)  a = Slice(x, one1, last, three1)  up = Relu(a)
        e = Shape(up)  kn = Expand(ln, e)  kc = Expand(lc, e)  kh = Expand(lh, e)  kw = Expand(in, e)
        cn = Unsqueeze(kn, minus)  cc = Unsqueeze(kc, minus)  ch = Unsqueeze(kh, minus)  cw = Unsqueeze(kw, minus)
        i = Concat<axis=-1>(cn, cc, ch, cw)  y = Neg(x)  z = ScatterND(y, i, up)""",
    "channels that differ": """a = Conv(x, u)  b = Relu(a)  c = Conv(b, k)  d = Add(a, c)  z = Sigmoid(d)""",
}  # fmt: skip
# On bytes from end to end: convolutions one and two apart, a residual, a mean, a product.
QUANTIZED = {
    "bytes": """xq = QuantizeLinear(x, s1, o1)  xf = DequantizeLinear(xq, s1, o1)  uf = DequantizeLinear(ub, s1, z1)
        kf = DequantizeLinear(kb, s1, z1)  a = Conv<pads=[1,1,1,1], strides=[2,2]>(xf, uf)  b = Relu(a)
        bq = QuantizeLinear(b, t1, p1)  bf = DequantizeLinear(bq, t1, p1)  c = Conv<pads=[1,1,1,1]>(bf, kf)
        d = Add(c, bf)  e = Relu(d)  eq = QuantizeLinear(e, t1, p1)  ef = DequantizeLinear(eq, t1, p1)
        g = GlobalAveragePool(ef)  gq = QuantizeLinear(g, t1, p1)  gf = DequantizeLinear(gq, t1, p1)  h1 = Flatten(gf)
        lf = DequantizeLinear(lb, s1, z1)  i = MatMul(h1, lf)  j = QuantizeLinear(i, t1, o1)
        y = DequantizeLinear(j, t1, o1)""",
}
SCALES = {
    "s1": np.float32(0.04),
    "t1": np.float32(0.15),
    "o1": np.uint8(128),
    "p1": np.uint8(0),
    "z1": np.int8(0),
}
DEEP = 128
BYTES = {"ub": (DEEP, CHANNELS, 3, 3), "kb": (DEEP, DEEP, 3, 3), "lb": (DEEP, 10)}
NUMBERS = {
    "flat": [0, 16, -1], "last": [1 << 40],
    "zero": 0, "one": 1, "three": 3, "two": [2], "four": [4], "zero1": [0], "one1": [1], "eight": [8], "axis": [1],
    "two0": 2, "three1": [3], "minus": [-1], "along_n": [-1, 1, 1, 1], "along_c": [-1, 1, 1], "along_h": [-1, 1],
    "sixteen": [16], "two2": [2, 2], "groups": [2, 8], "axes": [1, 2],
}  # fmt: skip
REALS = {"onef": 1.0, "twof": 2.0, "threef": 3.0}


def model_of(name: str) -> onnx.ModelProto:
    graph, made = (GRAPHS | QUANTIZED)[name], "y" if name in QUANTIZED else "z"
    text = f"network (float[n,{CHANNELS},h,w] x) => ({made}) {{ {graph} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{text}')
    rng = np.random.default_rng(1)
    arrays = {key: np.array(value, np.int64) for key, value in NUMBERS.items()}
    arrays |= {key: np.array(value, np.float32) for key, value in REALS.items()}
    arrays |= {key: (rng.standard_normal(shape) / 4).astype(np.float32) for key, shape in WEIGHTS.items()}
    arrays |= {key: np.asarray(value) for key, value in SCALES.items()}
    arrays |= {key: rng.integers(-20, 21, shape).astype(np.int8) for key, shape in BYTES.items()}
    used = {each for node in model.graph.node for each in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, key) for key, array in arrays.items() if key in used
    )
    return model


@pytest.mark.parametrize("machine", [LARGE, SMALL], ids=["large", "small"])
@pytest.mark.parametrize("name", GRAPHS | QUANTIZED)
def test_one_plan_holds_for_all_sizes(name: str, machine: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "host_target", lambda: machine)
    graph = load_onnx(model_of(name)).graph
    for n, h, w in SIZES[:2]:
        trace = Trace()
        pattern, numbers = Signature(graph.inputs).dimensions(((n, CHANNELS, h, w),))
        types = Signature(graph.inputs).typed(pattern, [trace.dimension(number) for number in numbers])
        assembler = planned_sized(specialize(graph, types).graph, Compilation(LoadOptions(threads=2)), trace)
        # Estimates that are compared part sizes somewhere, if not these.
        compared = [place for place in trace.places.values() if place.startswith("passes/quantization")]
        assert not compared
        for other in SIZES:
            evaluation = Evaluation(trace, other)
            parted = [
                f"{trace.places[text]}: {text} is {question.value}"
                for text, question in trace.guards.items()
                if evaluation.value(question) != question.value
            ]
            assert not parted, f"made for {(n, h, w)}, not for {other}"
        hosts = [step.label for step in assembler.steps if step.origin.kind is StepKind.HOST]
        assert not hosts, "no step runs in Python"


@pytest.mark.parametrize("name", GRAPHS)
def test_open_sizes_answer_as_fixed_ones(name: str) -> None:
    rng = np.random.default_rng(len(name))
    sizes = [(int(rng.integers(1, 4)), *map(int, rng.integers(9, 40, 2))) for _ in range(3)]
    check(model_of(name), [(1, 23, 17), *sizes], threads=1, rounds=True)


@pytest.mark.parametrize("name", QUANTIZED)
def test_open_sizes_of_bytes_answer_as_fixed_ones(name: str) -> None:
    """Whether a layer runs on bytes or floats is decided at the first size, and by size for fixed ones: sums in floats
    round once in a while to the other neighbour."""
    model = model_of(name)
    whole = cenote.load(model, threads=1)
    for shape in [(n, CHANNELS, h, w) for n, h, w in SIZES]:
        x = np.random.default_rng(shape[2]).standard_normal(shape, np.float32)
        apart = np.abs(whole(x) - cenote.load(fixed(model, shape), threads=1)(x)) / SCALES["t1"]
        assert apart.max() <= 1.001
        assert (apart > 0.5).mean() <= 0.1
