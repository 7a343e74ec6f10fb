"""Equilibria of mechanisms, and what is linear around a state: linearisation and natural modes."""

from catena.analysis.equilibrium import Equilibrium, equilibrium
from catena.analysis.linearization import Linearization, linearize
from catena.analysis.modes import Mode, Modes, modes

__all__ = ["Equilibrium", "Linearization", "Mode", "Modes", "equilibrium", "linearize", "modes"]
