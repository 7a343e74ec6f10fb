"""Numbers that run where floats do."""
