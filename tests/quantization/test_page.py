"""The page of a report: well-formed, with a bar and a row per layer, whatever the numbers and names."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from cenote.quantization.report import QuantizationReport
from cenote.quantization.table import LayerErrors


def test_a_page_of_odd_numbers_and_names() -> None:
    layers = (
        LayerErrors("<a & b>", "Conv", 40.0, math.inf, 33.3, 0.01),
        LayerErrors("x" * 200, "Gemm", None, None, -math.inf, 0.5),
        LayerErrors("poor", "Add", None, 12.0, math.nan, 1.0),
    )
    report = QuantizationReport(
        "q.onnx",
        "mse",
        layers,
        ("<float>",),
        "metric",
        1.0,
        0.5,
        4_000_000,
        1_000_000,
        None,
        None,
        3,
        ("a < b",),
    )
    page = report.html()
    body = re.search(r"<main.*</main>", page, re.DOTALL)
    assert body is not None
    tree = ElementTree.fromstring(body[0])
    assert len(tree.findall(".//{*}rect")) == len(tree.findall(".//tr")) - 1 == 3
    widths = [float(each.attrib["width"]) for each in tree.findall(".//{*}rect")]
    assert widths[0] > 300
    assert widths[1:] == [0, 0]
    assert "note: a < b" in "".join(tree.itertext())
    assert report.as_dict()["layers"][1]["sqnr"] is None
