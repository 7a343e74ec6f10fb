"""Kernels: public constructors."""
