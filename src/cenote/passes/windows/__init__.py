"""Passes over convolutions and pools: sub-maps of dilated ones, pads, reductions that are pools."""
