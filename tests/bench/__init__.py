"""Measurements on a real control plane. scripts/bench runs them; nothing here asserts a time."""
