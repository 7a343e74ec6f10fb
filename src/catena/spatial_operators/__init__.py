"""The spatial operators of a model at one configuration: `operators(m, q)`."""

from catena.spatial_operators.operators import Operators, operators

__all__ = ["Operators", "operators"]
