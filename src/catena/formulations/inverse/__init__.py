"""Inverse dynamics: joint forces from accelerations, O(n) in both ways; and their regressor, joint forces from parameters."""
