"""Makes the kernels that the wheel carries. Part of a checkout and of the source distribution, not of the package."""
