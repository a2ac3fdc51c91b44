"""Winograd convolutions: transforms, products and their calls, of floats and of bytes."""
