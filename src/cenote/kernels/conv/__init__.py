"""Kernels of convolutions and matrix products, and the calls that launch them."""
