"""Convolutions of float32 as products of float16 parts on tiles."""
