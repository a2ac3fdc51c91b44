"""Convolutions and matrix products of bytes: sums in 32 bits, which are exact."""
