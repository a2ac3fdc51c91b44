"""Calibration data of networks in 8 bits, the same for every tool that quantises them."""

from collections.abc import Iterator

import numpy as np

PICTURES = 4  # for the ranges of activations; weights and pictures are random, so more would change nothing


def pictures(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """Yield seeded normal noise, as the benchmark's input is."""
    for seed in range(PICTURES):
        yield np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
