"""Example models, built in. `EXAMPLES` holds the functions that make them, by the name the command line knows.

>>> from catena.examples import EXAMPLES
>>> EXAMPLES["double-pendulum"]().nv
2
"""

from collections.abc import Callable

from catena.examples.linkages import bennett, bricard, four_bar, jansen_leg, peaucellier, slider_crank, stephenson, watt
from catena.examples.suspensions import double_wishbone, quarter_car
from catena.examples.trees import arm, cart_pole, chain, double_pendulum, gallery, humanoid, pendulum, top
from catena.model import Model

#: The examples by name: trees first, then mechanisms with loops.
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
}

__all__ = [
    "EXAMPLES",
    "arm",
    "bennett",
    "bricard",
    "cart_pole",
    "chain",
    "double_pendulum",
    "double_wishbone",
    "four_bar",
    "gallery",
    "humanoid",
    "jansen_leg",
    "peaucellier",
    "pendulum",
    "quarter_car",
    "slider_crank",
    "stephenson",
    "top",
    "watt",
]
