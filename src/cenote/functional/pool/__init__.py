"""Pooling on arrays: a file per family, and the gradients."""
