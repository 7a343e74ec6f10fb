"""Forward dynamics without the mass matrix, by its products or by its triangular factors, M = [I + H phi K] D [I + H phi K]*: O(n^2)."""
