"""Inverse dynamics: joint forces from accelerations. Both ways are O(n)."""
