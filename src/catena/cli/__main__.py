"""`python -m catena.cli` is the command `catena`."""

from catena.cli import app

app(prog_name="catena")
