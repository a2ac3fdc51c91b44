"""Kernels of layers that walk a sequence step by step."""
