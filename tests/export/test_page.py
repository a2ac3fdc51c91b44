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


needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium (chromium)")


def shown(file: Path, folder: Path, *options: str) -> str:
    """The document of a page after 20 seconds of the browser's own time."""
    assert BROWSER is not None
    flags = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={folder / 'browser'}",
        *options,
    ]
    command = [BROWSER, *flags, "--virtual-time-budget=20000", "--dump-dom", file.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@needs_browser
def test_the_page_answers_in_a_browser(tmp_path: Path) -> None:
    picture, url = example()
    page = {"title": "Clothes <in> pictures", "samples": [url]}
    (file,) = cenote.export_model(DATA / "fashion.onnx", tmp_path, target="wasm32", page=page)
    text = shown(file, tmp_path)
    model = cenote.load(DATA / "fashion.onnx")
    chances = probabilities(model(picture[None, None].astype(np.float32) / np.float32(255)))[0]
    labels = model.metadata["labels"].split(",")
    answers = re.findall(r"<li><b>(.*?)</b>.*?<span>(.*?) %</span></li>", text)
    assert answers, text[-3000:]
    assert answers[0][0] == labels[int(chances.argmax())].strip()
    # The browser draws the picture larger and smaller again.
    assert abs(float(answers[0][1]) - 100 * float(chances.max())) < 5
    assert "Clothes &lt;in&gt; pictures" in text
    maps = re.findall(r"<figcaption>(\w+): \d+ of (\d+) channels", text)
    assert len(maps) == 3


# What a person without a mouse, or with weak eyes, needs (Web Content Accessibility Guidelines 2.2: 1.4.3, 1.4.11,
# 2.1.1, 2.4.7, 4.1.2): every control takes the focus and shows it and has a name; colours differ enough.
CHECK = """
<script type="module">
const reports = [];
const channels = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = (colour) => {
  const [r, g, b] = channels(colour)
    .map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, two) => {
  const [dark, bright] = [light(one), light(two)].sort((a, b) => a - b);
  return (bright + 0.05) / (dark + 0.05);
};
const canvas = document.body.appendChild(document.createElement("div"));
canvas.style.background = "Canvas";
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if ((channels(colour)[3] ?? 1) === 1) return colour;
  }
  return getComputedStyle(canvas).backgroundColor;
};
setTimeout(() => {
  for (const element of document.querySelectorAll("button, input, a, canvas[tabindex]")) {
    const named = element.getAttribute("aria-label") || element.closest("label")?.textContent || element.textContent
      || element.querySelector("img")?.alt;
    element.focus();
    const ring = getComputedStyle(element.closest("label") ?? element);
    const whole = named?.trim() && document.activeElement === element && parseFloat(ring.outlineWidth) >= 2
      && ring.outlineStyle !== "none" && contrast(ring.outlineColor, behind(canvas)) >= 3;
    reports.push(`control ${whole ? "good" : "bad"} ${element.id || element.outerHTML.slice(0, 60)}`);
  }
  document.getElementById("status").className = "error";
  for (const element of document.querySelectorAll("h1, h2, p, button, label, li b, li span, figcaption")) {
    const ratio = contrast(getComputedStyle(element).color, behind(element));
    reports.push(`text ${ratio >= 4.5 ? "good" : "bad"} ${ratio.toFixed(1)} ${element.textContent.slice(0, 20)}`);
  }
  for (const bar of document.querySelectorAll("li i")) {
    reports.push(`bar ${contrast(behind(bar), behind(bar.parentElement)) >= 3 ? "good" : "bad"}`);
  }
  document.documentElement.dataset.checked = `${getComputedStyle(canvas).backgroundColor}; ${reports.join("; ")};`;
}, 15000);
</script>
"""


@needs_browser
@pytest.mark.parametrize(("scheme", "paper"), [("1", "rgb(255, 255, 255)"), ("0", "rgb(18, 18, 18)")])
def test_the_page_serves_keyboards_and_weak_eyes(tmp_path: Path, scheme: str, paper: str) -> None:
    (file,) = cenote.export_model(
        DATA / "fashion.onnx", tmp_path, target="wasm32", page={"samples": [example()[1]]}
    )
    file.write_text(file.read_text() + CHECK)
    text = shown(file, tmp_path, f"--blink-settings=preferredColorScheme={scheme}")
    found = re.search(r'data-checked="([^"]*)"', text)
    assert found, text[-3000:]
    assert found[1].startswith(paper)
    reports = re.findall(r"(control|text|bar) (good|bad)([^;]*);", found[1])
    kinds = [kind for kind, _, _ in reports]
    assert kinds.count("control") >= 5
    assert kinds.count("text") >= 20
    assert kinds.count("bar") >= 3
    assert [report for report in reports if report[1] == "bad"] == []


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
