"""The mass matrix, three ways: [J91] §3. Each is O(n^2)."""
