"""Constraints of loops, and the coordinates that they determine."""
