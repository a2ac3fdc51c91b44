"""Builds and checks a release in dist/: `make release`.

    python -m release                  everything, minutes: the wheel's kernels are compiled for common networks
    python -m release --no-kernels     a rehearsal: a wheel without compiled kernels, not to be published

A source distribution and the wheels of cenote and cenote-runtime are built from the checkout, their metadata, README,
licences and contents checked, each installed in an empty environment of every Python from 3.11 on that is here and
tried, and beside them are written: a bill of materials (CycloneDX 1.6), the notes of this version, and SHA256SUMS.
The first fault ends it; a Python that is not installed here is named. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from release import built, checked, installed, papers

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--no-kernels", action="store_true", help="leave the compiled kernels out")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="the folder, emptied first (dist)")
    parser.add_argument("--python", action="append", default=[], help="an interpreter, instead of all found")
    options = parser.parse_args()
    folder: Path = options.output.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        files = built.distributions(folder, kernels=not options.no_kernels)
        checked.distributions(files, kernels=not options.no_kernels)
        installed.everywhere(files, options.python)
        papers.write(folder, files)
    except checked.Fault as fault:
        print(f"not a release: {fault}", file=sys.stderr)
        return 1
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
