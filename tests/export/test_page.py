"""A model as one HTML file: it answers in a real browser, and models that it cannot show are refused."""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import parser
from PIL import Image

import cenote
from cenote.cli.answers import probabilities
from tests.small_network import small

DATA = Path(cenote.__file__).parent / "data"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def example() -> tuple[np.ndarray, str]:
    """A picture of the package, and a URL that holds it."""
    with np.load(DATA / "pictures.npz") as content:
        picture = content["pictures"][1]
    written = io.BytesIO()
    Image.fromarray(picture).save(written, "PNG")
    return picture, f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"


@pytest.mark.skipif(BROWSER is None, reason="no Chromium (chromium)")
def test_the_page_answers_in_a_browser(tmp_path: Path) -> None:
    picture, url = example()
    page = {"title": "Clothes <in> pictures", "samples": [url]}
    (file,) = cenote.export_model(DATA / "fashion.onnx", tmp_path, target="wasm32", page=page)
    assert BROWSER is not None
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}"]
    command = [BROWSER, *flags, "--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    model = cenote.load(DATA / "fashion.onnx")
    chances = probabilities(model(picture[None, None].astype(np.float32) / np.float32(255)))[0]
    labels = model.metadata["labels"].split(",")
    answers = re.findall(r"<li><b>(.*?)</b>.*?<span>(.*?) %</span></li>", done.stdout)
    assert answers, done.stdout[-3000:]
    assert answers[0][0] == labels[int(chances.argmax())].strip()
    # The browser draws the picture larger and smaller again.
    assert abs(float(answers[0][1]) - 100 * float(chances.max())) < 5
    assert "Clothes &lt;in&gt; pictures" in done.stdout
    maps = re.findall(r"<figcaption>(\w+): \d+ of (\d+) channels", done.stdout)
    assert len(maps) == 3


def test_the_page_needs_no_other_file(tmp_path: Path) -> None:
    (file,) = cenote.export_model(DATA / "fashion.onnx", tmp_path, target="wasm32", page={})
    text = file.read_text()
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert "https://" not in text
    assert "%SETTINGS%" not in text


def test_what_a_page_cannot_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(cenote.UnsupportedError, match="has 8 channels, where a picture has 1 or 3"):
        cenote.export_model(small(tmp_path / "m.onnx"), tmp_path, target="wasm32", page={})
    texts = {
        "2 inputs": "g (float[1, 3, 8, 8] a, float[1, 3, 8, 8] b) => (float[1, 3, 8, 8] y) { y = Add(a, b) }",
        "which is no picture": "g (float[2, 5] a) => (float[2, 5] y) { y = Relu(a) }",
        "no output is a vector of scores": "g (float[1, 3, 8, 8] a) => (float[1, 3, 8, 8] y) { y = Relu(a) }",
    }
    for message, text in texts.items():
        model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
        with pytest.raises(cenote.UnsupportedError, match=message):
            cenote.export_model(model, tmp_path, target="wasm32", page={})
    with pytest.raises(cenote.ArgumentError, match=r"page: .*colour.*it takes title, labels"):
        cenote.export_model(DATA / "fashion.onnx", tmp_path, target="wasm32", page={"colour": "rgb"})
    with pytest.raises(cenote.ArgumentError, match="page: one set of sizes for the target wasm32"):
        cenote.export_model(DATA / "fashion.onnx", tmp_path, target="aarch64", page={})
