"""Commands of other programs, and what is wrong with a release."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class Fault(Exception):
    """Why what was built is not a release."""


def run(*command: str | Path, folder: Path = ROOT, alone: bool = False, **environment: str) -> str:
    """Output of a command run in `folder`; a failure is a Fault with all that it printed.

    `alone`: nothing of this checkout is on Python's path, and the caches of Cenote lie in `folder`.
    """
    given = dict(os.environ)
    if alone:
        given = {name: value for name, value in given.items() if not name.startswith(("PYTHON", "CENOTE_"))}
        given |= {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(
        [str(each) for each in command],
        capture_output=True, text=True, check=False, cwd=folder, env=given | environment,
    )  # fmt: skip
    if done.returncode:
        line = " ".join(map(str, command))
        raise Fault(f"{line} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
