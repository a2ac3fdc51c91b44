"""Matrix products and other linear maps."""
