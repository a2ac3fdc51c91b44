"""Commands about servers of models."""
