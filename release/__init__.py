"""A release, made and checked: `make release`."""
