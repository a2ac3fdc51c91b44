"""Kernels that choose elements: by index, by a mask, by their order."""
