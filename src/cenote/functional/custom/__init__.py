"""Functions on arrays that are made of users' kernels."""
