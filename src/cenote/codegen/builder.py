"""Placeholder while the builder is being written."""
from __future__ import annotations


class Kernel:
    """A kernel being built."""
