"""`python -m tests.golden.update` writes the expected texts anew. Look at the difference before you commit it."""

from __future__ import annotations

import os

from tests.golden.networks import FOLDER, NETWORKS, TARGET, printed

if __name__ == "__main__":
    os.environ["CENOTE_TARGET"] = TARGET
    for network in NETWORKS:
        for file, text in printed(network):
            (FOLDER / file).write_text(text + "\n", encoding="utf-8")
            print(file)
