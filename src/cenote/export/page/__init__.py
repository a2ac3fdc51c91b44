"""A model as one HTML file."""
