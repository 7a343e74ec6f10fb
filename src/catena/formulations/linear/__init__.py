"""Forward dynamics by recursion alone, M^-1 = [I - H psi K]* D^-1 [I - H psi K]: O(n)."""
