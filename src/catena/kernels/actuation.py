"""The kernel of actuators: joint forces of a state and of controls."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from catena.graph import Trace
from catena.kernels.tracing import charts, frozen
from catena.model import Mechanism
from catena.model.actuators import Actuation
from catena.model.parameters import CONTROLS
from catena.native import Kernel, compile_graph


def actuator_forces(m: Mechanism) -> Kernel:
    """Return the kernel (q, v, controls) -> tau: the joint forces that the actuators of a model make of controls, one for each.

    Forces are limited as `m.add_actuator` says. In the function of a controller or a force the kernel becomes part of that function.

    >>> m = ct.Model("arm")
    >>> m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
    >>> m.add_actuator("shoulder", "upper", kp=200.0, kv=20.0, force_limits=(-40, 40))
    >>> act = ct.actuator_forces(m)
    >>> act([0.0], [0.0], [0.1]), act([0.0], [0.0], [1.0])
    (array([20.]), array([40.]))
    >>> run = ct.simulate(m, [0.0], until=5.0, controller=lambda t, q, v: act(q, v, [0.5]))
    >>> run["upper"][-1].round(3)
    np.float64(0.521)
    """
    m = frozen(m, "actuator_forces")
    actuation, started = Actuation.of(m, "actuator_forces"), time.perf_counter()
    trace = Trace("actuator_forces")
    inputs = trace.input("q", (m.nq,)), trace.input("v", (m.nv,)), trace.input(CONTROLS, (len(m.actuators),))
    graph = trace.graph(tau=actuation.forces(*inputs))
    labels = {"q": m.q_names, "v": m.v_names, "tau": m.v_names, CONTROLS: tuple(one.name for one in m.actuators)}

    def function(q: Any, v: Any, controls: Any) -> Any:
        return actuation.forces(*(np.asarray(x, dtype=float) for x in (q, v, controls)))

    seconds = time.perf_counter() - started
    return compile_graph(graph, trace_seconds=seconds, function=function, model=m.name, labels=labels, charts=charts(m))
