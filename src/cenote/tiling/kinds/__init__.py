"""Kinds of layers that are cut into tiles: one module each, which says how a layer of the kind is given, what its tiles
read, and how a tile is computed."""
