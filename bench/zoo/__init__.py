"""Architectures of other projects, by their definitions without trained weights: what users bring."""
