"""Joint forces that are put into a mechanism: constant, over time, in rows that are held, or by a controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from catena.errors import ArgumentError
from catena.model import Mechanism
from catena.model.actuators import Actuated, Actuation, Controlled, acting
from catena.model.user_functions import Role, joint_forces, own_array, python, wrapped
from catena.model.values import floats
from catena.simulation.stepping import Layout
from catena.simulation.switches import Switches

Array = Any
Function = Callable[[Any, Array, Array], Any]

_JOINT_FORCES = "give joint forces, or a pair (times, values)"


class Input:
    """The joint forces that are put in: none, constant, over time, or by a controller."""

    def __init__(self, model: Mechanism, tau: Any, controller: Any) -> None:
        self.model = model
        self.controller: Function | None = None
        self.times, self.values, self.constant = None, None, np.zeros(model.nv)
        self.switches: Switches | None = None  # at which steps are to end
        if tau is not None and controller is not None:
            raise ArgumentError("both tau and controller are given; give one of them, and add a constant inside the controller")
        if callable(controller):
            controller_role(model).check_signature(controller)
            self.controller = model.bound(controller)
        elif controller is not None:
            raise ArgumentError(f"controller {controller!r} is not a function; give a function (t, q, v) -> tau, or forces as tau=")
        elif isinstance(tau, tuple) and len(tau) == 2 and np.ndim(tau[0]) == 1 and np.ndim(tau[1]) == 2:
            self.times, self.values = (floats("tau", part, _JOINT_FORCES) for part in tau)
            _check_table("tau", self.times, self.values, model.nv)
        elif tau is not None:
            self.constant = floats("tau", tau, _JOINT_FORCES)
            if self.constant.shape != (model.nv,) or not np.isfinite(self.constant).all():
                raise ArgumentError(
                    f"tau has shape {self.constant.shape}; give {model.nv} finite joint forces, or a pair (times, values) "
                    f"of shapes (K,) and (K, {model.nv})"
                )

    @property
    def servos(self) -> Actuated | Controlled | None:
        """What gives the actuators their controls, in machine code; None where they rest."""
        return acting(self.model, self.controller)

    @property
    def acts(self) -> bool:
        """Whether any joint force is put in."""
        return self.controller is not None or self.times is not None or bool(self.constant.any())

    @property
    def in_python(self) -> bool:
        """Whether something must be called from Python at every step."""
        return isinstance(self.controller, python) or bool(self.model.python_forces)

    @property
    def row(self) -> Layout:
        """Entries of a row of the table: a piece of the input over time, in which no function switches between `t_from` and `t_to`."""
        nv = self.model.nv
        sizes = {"t_start": 1, "t_next": 1} if self.times is not None or self.switches else {}
        sizes |= {"first": nv, "slope": nv} if self.times is not None else {}
        return Layout((), sizes | ({"t_from": 1, "t_to": 1} if self.switches else {}))

    def table(self, start: float, until: float) -> np.ndarray:
        """Return the rows of the table from a time on, (1, rows, entries)."""
        if self.times is None or self.values is None:
            return np.zeros((1, 1, 0))
        _check_span("tau is", self.times, start, until)
        slopes = np.diff(self.values, axis=0) / np.diff(self.times)[:, None]
        rows = np.column_stack([self.times[:-1], self.times[1:], self.values[:-1], slopes])
        return rows[self.times[1:] > start][None]

    def known_rows(self, start: float, until: float) -> np.ndarray:
        """Return the rows of the table up to the last switch that is known, (1, rows, entries)."""
        table, switches = self.table(start, until), self.switches
        if not switches:
            return table
        kinks = table[0, 1:, 0] if self.times is not None else np.zeros(0)
        edges = np.unique(np.concatenate([[start], kinks, switches.times]))
        last = until if switches.complete else max(start, switches.times.max(initial=start))
        edges = np.append(edges[edges < last], last)
        first, last = edges[:-1], edges[1:]
        columns = [first, last]
        if self.times is not None:
            pieces = table[0, np.searchsorted(table[0, :, 0], first, side="right") - 1]
            values, slope = np.split(pieces[:, 2:], 2, axis=1)
            columns += [values + (first - pieces[:, 0])[:, None] * slope, slope]
        return np.column_stack([*columns, first + switches.away(first), last - switches.away(last)])[None]

    def force(self, t: Any, q: Array, v: Array, row: dict[str, Any], constants: dict[str, Any]) -> Array:
        """Return the joint forces put in at a time and state."""
        if self.controller is not None:
            return controller_role(self.model).value(self.controller, t, own_array(q), own_array(v))
        if self.times is not None:
            return row["first"] + (t - row["t_start"][0]) * row["slope"]
        return constants["tau"]


class Controls(Input):
    """The joint forces of a rollout: none, "tau" in rows of a table that are held, or by a controller; and "noise", which is added.

    Rows of the table have these `sizes`; numbers of the model that change from row to row are among them by their paths.
    """

    def __init__(self, model: Mechanism, sizes: Mapping[str, int], controller: Function | None) -> None:
        super().__init__(model, None, controller)
        self._row = Layout((), dict(sizes))

    @property
    def row(self) -> Layout:
        return self._row

    def force(self, t: Any, q: Array, v: Array, row: dict[str, Any], constants: dict[str, Any]) -> Array:
        put_in = super().force(t, q, v, row, constants) if self.controller is not None else row.get("tau", np.zeros(self.model.nv))
        return put_in + row["noise"] if "noise" in row else put_in


def _check_table(name: str, times: np.ndarray, values: np.ndarray, size: int) -> None:
    if values.shape != (len(times), size) or len(times) < 2:
        raise ArgumentError(f"{name} over time has shapes {times.shape} and {values.shape}; give K >= 2 times and (K, {size}) values")
    if not (np.isfinite(times).all() and np.isfinite(values).all() and (np.diff(times) > 0.0).all()):
        raise ArgumentError(f"{name} over time needs finite values at times that increase; sort the times and remove what is not finite")


def _check_span(what: str, times: np.ndarray, start: float, until: float) -> None:
    if start < times[0] or until > times[-1]:
        raise ArgumentError(
            f"{what} given from {times[0]:g} s to {times[-1]:g} s, but the run goes from {start:g} s to {until:g} s; "
            "give it over the whole run"
        )


def controller_role(m: Mechanism, marked: bool = True) -> Role:
    """Return what a controller is to be; `marked` if it may be called from Python."""
    return Role("controller", {"t": None, "q": m.nq, "v": m.nv}, joint_forces(m.nv), ((m.nv,),), marked=marked)


def controls_role(m: Mechanism, marked: bool = True) -> Role:
    """Return what a controller of controls is to be."""
    count = len(m.actuators)
    returns = f"{'1 control, in a list or array,' if count == 1 else f'{count} controls,'} one for each of m.actuators"
    return Role("controls", {"t": None, "q": m.nq, "v": m.nv}, returns, ((count,),), marked=marked)


def actuated(m: Mechanism, controls: Function, what: str, marked: bool = True) -> Function:
    """Return the controller of joint forces that one of controls makes by the actuators of a mechanism."""
    made, role = Actuation.of(m, what), controls_role(m, marked)
    role.check_signature(controls)
    controls = m.bound(controls)
    if not isinstance(controls, python):
        role.graph(controls)
    return wrapped(controls, lambda plain: Actuated(made, plain, role))


def controls_of_run(m: Mechanism, controls: Any, q0: Any, start: float, until: float) -> Function:
    """Return the controller that controls of a run stand for: constant, over time, "hold", or from a function."""
    made, size = Actuation.of(m, "simulate"), len(m.actuators)
    if callable(controls):
        return actuated(m, controls, "simulate")
    remedy = f"give {size}, one for each of m.actuators, a pair (times, values), a function of (t, q, v), or \"hold\""
    if isinstance(controls, str):
        if controls != "hold":
            raise ArgumentError(f"simulate: controls {controls!r} is not known; {remedy}")
        controls = made.holding(q0)
    if isinstance(controls, tuple) and len(controls) == 2 and np.ndim(controls[0]) == 1 and np.ndim(controls[1]) == 2:
        times, values = (floats("controls", part, remedy) for part in controls)
        _check_table("controls", times, values, size)
        _check_span("controls are", times, start, until)
        return actuated(m, partial(_interpolated, times, values), "simulate")
    constant = floats("controls", controls, remedy)
    if constant.shape != (size,) or not np.isfinite(constant).all():
        raise ArgumentError(f"simulate: controls of shape {constant.shape} are not {size} finite numbers; {remedy}")
    return actuated(m, partial(_constant, constant), "simulate")


def _constant(values: np.ndarray, t: Any, q: Array, v: Array) -> Array:
    return values


def _interpolated(times: np.ndarray, values: np.ndarray, t: Any, q: Array, v: Array) -> list[Any]:
    return [np.interp(t, times, column) for column in values.T]


def cost_role(m: Mechanism, name: str) -> Role:
    """Return what a cost, or a final cost, is to be."""
    arguments = {"t": None, "q": m.nq, "v": m.nv} | ({"tau": m.nv} if name == "cost" else {})
    return Role(name, arguments, "one number, the cost", ((),), marked=False)
