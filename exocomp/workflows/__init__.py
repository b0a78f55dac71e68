"""Chains of steps; each step is one small pure file."""
