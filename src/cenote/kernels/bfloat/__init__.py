"""Kernels on bfloat16: products of it with sums in float32, and kernels of float32 on such memory."""
