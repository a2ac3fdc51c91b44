"""Kernels of convolutions and matrix products, and the plans that launch them."""
