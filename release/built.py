"""The distributions of a release: what is built, and from what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from release.commands import ROOT, run

KERNELS = ROOT / "src" / "cenote" / "data" / "kernels.bundle"
RUNTIME = ROOT / "packaging" / "runtime"
# Written into the archives in place of the time, so that the same checkout gives the same files (1 January 2020).
DATE = "1577836800"


class Files(NamedTuple):
    """Paths of the source distribution, the wheel of cenote and that of cenote-runtime."""

    source: Path
    wheel: Path
    runtime: Path


def distributions(folder: Path, kernels: bool) -> Files:
    """Build them into `folder`. The kernels lie in the package only while its wheel is packed."""
    build = (sys.executable, "-m", "build", "--outdir", folder)
    try:
        if kernels:
            run(sys.executable, "-m", "bundle")
        run(*build, ROOT, "--sdist", "--wheel", SOURCE_DATE_EPOCH=DATE)
    finally:
        KERNELS.unlink(missing_ok=True)
    run(*build, RUNTIME, "--wheel", SOURCE_DATE_EPOCH=DATE)
    return Files(
        source=next(folder.glob("cenote-*.tar.gz")),
        wheel=next(folder.glob("cenote-*.whl")),
        runtime=next(folder.glob("cenote_runtime-*.whl")),
    )
