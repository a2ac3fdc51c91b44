"""Writes the pages that are made from the code: docs/settings.md. `make docs` runs it; a test compares."""

from __future__ import annotations

from pathlib import Path

import cenote

SETTINGS = Path(__file__).parent / "settings.md"


def settings_page() -> str:
    """The table of environment variables."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read when they are needed. `cenote info` shows what is in force. This page is made by",
        "`make docs` from `src/cenote/core/settings.py`.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for item in cenote.info().settings:
        lines.append(
            f"| `{item.variable}` | {f'`{item.default}`' if item.default else 'empty'} | {item.help} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SETTINGS.write_text(settings_page(), encoding="utf-8")
