"""What the site needs beyond the pages: links to files of the checkout become their names, fences plain ones.

A page may link to `../src/cenote/tiling/policy.py`; in a checkout that opens the file. The site has no such file, so
the link's text stays and the path follows it.
"""

from __future__ import annotations

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
