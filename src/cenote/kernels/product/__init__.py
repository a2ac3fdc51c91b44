"""Matrix products: a tile of registers, packing of both operands, and the plans that join them."""
