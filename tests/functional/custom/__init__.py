"""Tests of functions on arrays that are made of kernels of users."""
