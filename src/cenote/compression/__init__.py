"""Smaller models: weights in fewer bits, products as pairs of thin ones, each kept where it was measured to pay."""
