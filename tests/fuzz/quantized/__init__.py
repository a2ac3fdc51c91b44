"""Random quantised graphs."""
