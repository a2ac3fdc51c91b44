"""The fourteen benchmark networks, in torch, with weights that any machine can make again.

Real weights would have to be downloaded; these are drawn from a seeded generator instead (He initialisation,
batch-norm statistics calibrated on noise), which keeps activations in a sane range through the whole depth.
Speed does not depend on the values; errors are somewhat larger than on trained weights, for all.
"""

from bench.networks.catalogue import NETWORKS, Network, names
from bench.networks.weights import build, restore

__all__ = ["NETWORKS", "Network", "build", "names", "restore"]
