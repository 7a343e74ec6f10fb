"""Integrators: one step, on any scalar."""
