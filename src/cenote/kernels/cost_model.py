"""Rough times that let the chooser compare algorithms: arithmetic at a fraction of peak, bytes at a bandwidth."""

from __future__ import annotations

from cenote.core.target import Target

GIGAHERTZ = 3.2  # turns cycles into seconds for comparisons; all lowerings share the error
MEMORY = 20e9  # bytes per second from main memory
SIMPLE = 50e9  # simple vector operations per second: additions, comparisons, the steps of a polynomial
LAUNCH = 1e-6  # seconds that a step takes at least
CACHE = 40e9  # bytes per second from the last cache


def peak_seconds(operations: float, target: Target, efficiency: float) -> float:
    """Time of so many operations (multiply-adds count 2) on one core at a fraction of its peak."""
    per_cycle = 4 * target.lanes() if target.has_fma else 2 * target.lanes()
    return operations / (per_cycle * GIGAHERTZ * 1e9 * efficiency)


def stream_seconds(nbytes: float) -> float:
    """Time to read bytes from main memory."""
    return nbytes / MEMORY


def weight_seconds(nbytes: float) -> float:
    """Time to stream weights once: every core does so at the same time, and they share the bandwidth."""
    return nbytes / 14e9


def conversion_seconds(nbytes: float) -> float:
    """Time to bring a tensor into another layout, bytes read and written counted."""
    return LAUNCH + nbytes / 1.2e10


def pass_seconds(nbytes: float, operations: float = 0.0) -> float:
    """Time of one pass over tensors: their bytes from memory, simple operations on their elements."""
    return nbytes / MEMORY + operations / SIMPLE + LAUNCH


def moved_seconds(nbytes: float) -> float:
    """Time to move bytes that lie in the last cache."""
    return nbytes / CACHE
