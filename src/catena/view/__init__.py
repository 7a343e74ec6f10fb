"""Looking at models and runs: plots, pictures, films, and the live view."""
