"""Looking at runs: plots."""
