"""Loops: assembly, mobility and plans."""
