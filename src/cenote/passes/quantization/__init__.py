"""Operators between dequantisation and quantisation as operators of bytes."""
