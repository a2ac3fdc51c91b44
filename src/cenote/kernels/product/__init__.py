"""Matrix products: a tile of registers, packing of both operands, and the calls that join them."""
