"""Tests of cenote.frontends.microsoft."""
