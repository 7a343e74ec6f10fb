"""The weld."""

from __future__ import annotations

from dataclasses import dataclass

from catena.model.joints.base import Joint
from catena.model.motions import FixedMotion, Motion


@dataclass(frozen=True, repr=False)
class Fixed(Joint):
    """A weld: the child is part of the parent.

    >>> ct.Fixed().nv
    0
    """

    q_labels = v_labels = q_units = v_units = ()

    def motion(self) -> Motion:
        return FixedMotion()
