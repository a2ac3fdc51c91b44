"""Files that the wheel holds, laid out where pip would put them."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WHEEL: dict[str, Any] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def installed(folder: Path) -> Path:
    """The files that the wheel holds, where it puts them; the package's own as links."""
    for path in WHEEL["only-include"]:
        prefix = next(prefix for prefix in WHEEL["sources"] if path.startswith(prefix))
        target = folder / WHEEL["sources"][prefix] / path.removeprefix(prefix).strip("/")
        if (ROOT / path).is_dir():
            target.mkdir(parents=True)
            for part in (ROOT / path).iterdir():
                (target / part.name).symlink_to(part)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, target)
    return folder
