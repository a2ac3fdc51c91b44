"""Loaded models: reading their sources, and what users call, ask and keep."""
