"""The installation, and what its cache holds."""
