"""Example models. `EXAMPLES` holds the functions that make them, by their names on the command line; `ACTUATED` the coordinates of
parallel robots that have motors.

>>> examples.EXAMPLES["double-pendulum"]().nv
2
>>> examples.ACTUATED["five-bar-robot"]
('leg1_proximal', 'leg2_proximal')
"""

from collections.abc import Callable

from catena.examples.linkages import bennett, bricard, four_bar, jansen_leg, peaucellier, slider_crank, stephenson, watt
from catena.examples.robots import (
    ACTUATED,
    delta,
    delta_ruu,
    five_bar_robot,
    planar_3rrr,
    spherical_3rrr,
    stewart_floating,
    stewart_ucu,
    stewart_ups,
)
from catena.examples.suspensions import double_wishbone, quarter_car
from catena.examples.trees import arm, cart_pole, chain, double_pendulum, gallery, humanoid, pendulum, top
from catena.examples.walkers import biped
from catena.facade import Model

#: The examples by name: trees first, then mechanisms with loops: linkages and suspensions, parallel robots, walkers.
EXAMPLES: dict[str, Callable[[], Model]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        arm, pendulum, double_pendulum, cart_pole, top, humanoid, chain, gallery, slider_crank, four_bar, quarter_car, double_wishbone,
        jansen_leg, watt, stephenson, peaucellier, bennett, bricard, five_bar_robot, planar_3rrr, spherical_3rrr, delta, delta_ruu,
        stewart_ups, stewart_ucu, stewart_floating, biped,
    )
}  # fmt: skip

__all__ = [
    "ACTUATED", "EXAMPLES", "arm", "bennett", "biped", "bricard", "cart_pole", "chain", "delta", "delta_ruu", "double_pendulum",
    "double_wishbone", "five_bar_robot", "four_bar", "gallery", "humanoid", "jansen_leg", "peaucellier", "pendulum", "planar_3rrr",
    "quarter_car", "slider_crank", "spherical_3rrr", "stephenson", "stewart_floating", "stewart_ucu", "stewart_ups", "top", "watt",
]  # fmt: skip
