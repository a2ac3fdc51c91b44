"""CPU seconds of loading models of many nodes, kind by kind. `python -m bench.many_nodes --help`

The kinds are those of `tests/test_many_nodes.py`, which counts calls. Kernels are in the cache, plans are not taken
from it; with open sizes a plan for one size is made, too.
"""

import argparse
import os
import time

import cenote
from tests.many_nodes import KINDS, many_nodes


def seconds(content: bytes) -> float:
    """CPU seconds of this process for loading a model and, where its sizes are open, planning it for some."""
    begin = time.process_time()
    model = cenote.load(content, threads=1, tune="off")
    if not model.plan:
        model.plan_for({"x": (2, 4, 8, 9)})
    return time.process_time() - begin


def main() -> None:
    """Print a line per kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("`")[0])
    parser.add_argument("--kinds", default=",".join(KINDS), help="separated by commas; all by default")
    parser.add_argument("--nodes", type=int, default=20_000, help="about how many (20,000)")
    parser.add_argument("--open", action="store_true", help="open sizes instead of fixed ones")
    given = parser.parse_args()
    os.environ["CENOTE_PLAN_CACHE"] = "0"
    for kind in given.kinds.split(","):
        seconds(many_nodes(kind, 100, given.open))  # so that kernels are there
        print(f"{kind:24} {seconds(many_nodes(kind, given.nodes, given.open)):7.2f} s", flush=True)


if __name__ == "__main__":
    main()
