"""Passes over matrix products: what they absorb, and how their weights are stored."""
