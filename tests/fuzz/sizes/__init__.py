"""The kind `sizes`: random graphs whose sizes are open, at several sizes one after another."""
