"""What the site needs beyond the pages: links to files of the checkout become their names, fences plain ones.

A page may link to `../src/cenote/tiling/policy.py`; in a checkout that opens the file. The site has no such file, so
the link's text stays and the path follows it.

The network in the package becomes a page of the site on which it can be tried (`cenote export --page`).
"""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
_FENCE = re.compile(r"^```python [\w -]+$", re.MULTILINE)  # "python raises", "python no run": words for tests
_UPWARDS = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page's text with links out of docs/ as text: mkdocs calls it for every page."""
    folder = (DOCS / page.file.src_uri).parent

    def as_text(link: re.Match[str]) -> str:
        leaves = not (folder / link[2]).resolve().is_relative_to(DOCS)
        return f"{link[1]} (`{link[2].replace('../', '')}`)" if leaves else link[0]

    return _UPWARDS.sub(as_text, _FENCE.sub("```python", markdown))


def on_post_build(*, config: Any, **_: Any) -> None:
    """Write demo/fashion.html: mkdocs calls it when all pages stand."""
    import cenote

    data = Path(cenote.__file__).parent / "data"
    page = {"title": "Clothes in pictures", "samples": samples(data / "pictures.npz")}
    folder = Path(config["site_dir"]) / "demo"
    cenote.export_model(data / "fashion.onnx", folder, target="wasm32", name="fashion", page=page)


def samples(path: Path) -> list[str]:
    """Return the pictures of the package as URLs that hold them."""
    import numpy as np
    from PIL import Image

    urls = []
    with np.load(path) as content:
        for picture in content["pictures"]:
            written = io.BytesIO()
            Image.fromarray(picture).save(written, "PNG")
            urls.append(f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}")
    return urls
