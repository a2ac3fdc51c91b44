"""Models written in ONNX's text form."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

RNG = np.random.default_rng(0)
NETWORK = """network (float[N,3,H,W] x) => (float[N,10] y)
  <float[20,3,3,3] w, float[10,20] v>
  { a = Conv<pads=[1,1,1,1]>(x, w)  b = Relu(a)  c = MaxPool<kernel_shape=[2,2], strides=[2,2]>(b)
    d = GlobalAveragePool(c)  e = Flatten(d)  y = Gemm<transB=1>(e, v) }"""
TWO = "two (float[N,4] a, float[N,4] b) => (float[N,4] s, float[N,4] d) { s = Add(a, b)  d = Sub(a, b) }"


def parsed(text: str, **constants: Any) -> onnx.ModelProto:
    """A model out of ONNX's text form. The initialisers declared in <> get the given content, or noise."""
    body, rng = text, np.random.default_rng(7)
    if "<float[20" in text:
        begin, end = text.index("<float[20"), text.index(">", text.index("<float[20")) + 1
        body = text[:begin] + text[end:]
        noise = {"w": 0.2 * rng.standard_normal((20, 3, 3, 3)), "v": rng.standard_normal((10, 20))}
        constants = {name: noise[name] for name in ("w", "v") if f"{name})" in body}
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 18]>\n{body}')
    for name, content in constants.items():
        array = np.asarray(content)
        array = array.astype(np.float32) if array.dtype == np.float64 else array
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def noise(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)
