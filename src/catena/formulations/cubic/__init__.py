"""Forward dynamics through the mass matrix and its factors, M = H phi M phi* H*: O(n^3)."""
