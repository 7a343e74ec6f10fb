"""Example models, built in. `EXAMPLES` holds the functions that make them, by the name the command line knows; `ACTUATED` the coordinates
that have motors, of the parallel robots.

>>> from catena.examples import EXAMPLES
>>> EXAMPLES["double-pendulum"]().nv
2
>>> from catena.examples import ACTUATED
>>> ACTUATED["five-bar-robot"]
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
from catena.model import Model

#: The examples by name: trees first, then mechanisms with loops: linkages and suspensions, parallel robots, walkers.
EXAMPLES: dict[str, Callable[[], Model]] = {
    "arm": arm,
    "pendulum": pendulum,
    "double-pendulum": double_pendulum,
    "cart-pole": cart_pole,
    "top": top,
    "humanoid": humanoid,
    "chain": chain,
    "gallery": gallery,
    "slider-crank": slider_crank,
    "four-bar": four_bar,
    "quarter-car": quarter_car,
    "double-wishbone": double_wishbone,
    "jansen-leg": jansen_leg,
    "watt": watt,
    "stephenson": stephenson,
    "peaucellier": peaucellier,
    "bennett": bennett,
    "bricard": bricard,
    "five-bar-robot": five_bar_robot,
    "planar-3rrr": planar_3rrr,
    "spherical-3rrr": spherical_3rrr,
    "delta": delta,
    "delta-ruu": delta_ruu,
    "stewart-ups": stewart_ups,
    "stewart-ucu": stewart_ucu,
    "stewart-floating": stewart_floating,
    "biped": biped,
}

__all__ = [
    "ACTUATED",
    "EXAMPLES",
    "arm",
    "bennett",
    "biped",
    "bricard",
    "cart_pole",
    "chain",
    "delta",
    "delta_ruu",
    "double_pendulum",
    "double_wishbone",
    "five_bar_robot",
    "four_bar",
    "gallery",
    "humanoid",
    "jansen_leg",
    "peaucellier",
    "pendulum",
    "planar_3rrr",
    "quarter_car",
    "slider_crank",
    "spherical_3rrr",
    "stephenson",
    "stewart_floating",
    "stewart_ucu",
    "stewart_ups",
    "top",
    "watt",
]
