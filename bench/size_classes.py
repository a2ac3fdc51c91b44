"""A model of open sizes beside the same model loaded for one size. `python -m bench.size_classes --help`

The algorithms of a class of sizes are those of the size that it was made with (docs/any_size.md). Each model meets the
smallest and the largest size of one picture and of several first, in this order or the other; then, for every size, it
and a model with that size fixed run in turns, and the least time of each counts.
"""

import argparse
import os
import time
from collections.abc import Sequence
from math import prod

import numpy as np

import cenote
from bench.any_size import ANY_SIZE, LINE_HEIGHT, AnySize, Shape, chosen_networks
from bench.report import milliseconds

PICTURES = ((96, 128), (160, 160), (224, 224), (320, 320), (480, 640))
WIDTHS = (100, 200, 320, 640, 1000)
BATCHES = (1, 4)


def shapes_of(network: AnySize) -> list[Shape]:
    """Sizes that the model takes, from small to large."""
    sides = [(LINE_HEIGHT, width) for width in WIDTHS] if network.lines else list(PICTURES)
    return [(batch, 3, *side) for batch in BATCHES for side in sides]


def open_model(network: AnySize, met_first: Sequence[Shape]) -> cenote.Model:
    """The model of open sizes, having met these."""
    model = cenote.load(network.onnx.read_bytes(), threads=1)
    for shape in met_first:
        model.plan_for({model.inputs[0].name: shape})
    return model


def least(models: Sequence[cenote.Model], x: np.ndarray, rounds: int) -> list[float]:
    """Seconds of each: the least of so many runs, turn about."""
    best = [float("inf")] * len(models)
    for _ in range(rounds):
        for index, model in enumerate(models):
            begin = time.perf_counter()
            model(x)
            best[index] = min(best[index], time.perf_counter() - begin)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m bench.size_classes", description=__doc__)
    parser.add_argument(
        "--models", default=",".join(ANY_SIZE), help=f"of {', '.join(ANY_SIZE)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=30, help="runs of each (default: 30)")
    given = parser.parse_args(arguments)
    os.environ["CENOTE_PLAN_CACHE"] = "0"  # plans of another process may have met other sizes first
    print("| model | size | fixed, ms | small met first | large met first |\n|---|---|---|---|---|")
    for network in chosen_networks(parser, given.models):
        shapes = shapes_of(network)
        ends = [shape for batch in BATCHES for shape in shapes if shape[0] == batch]
        first = sorted((ends[0], ends[len(PICTURES) - 1], ends[-len(PICTURES)], ends[-1]), key=prod)
        opened = [open_model(network, first), open_model(network, first[::-1])]
        for shape in shapes:
            name = opened[0].inputs[0].name
            fixed = cenote.load(network.onnx.read_bytes(), threads=1, shapes={name: shape})
            x = np.random.default_rng(0).standard_normal(shape, np.float32)
            seconds = least([fixed, *opened], x, given.rounds)
            ratios = " | ".join(f"{each / seconds[0]:.2f}" for each in seconds[1:])
            print(f"| {network.name} | {shape} | {milliseconds(seconds[0])} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
