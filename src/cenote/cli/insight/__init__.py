"""Commands about a model's speed."""
