"""The trajectory: what a simulation hands back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from catena.errors import ArgumentError
from catena.kernels.dynamics import driving_forces, energy, joint_wrenches, loop_error
from catena.loops.mobility import rank
from catena.loops.projection import on_constraints
from catena.model import Mechanism
from catena.model.tree import read_only
from catena.model.values import floats
from catena.model.wording import choice, listed
from catena.simulation.interpolation import agree, interpolate, turns
from catena.simulation.loop_states import opening
from catena.tables import Table, facts
from catena.tolerances import LOOSE

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame
    from xarray import Dataset

    from catena.view.viewer import Viewer


class Occurrence(NamedTuple):
    """Something that happened during a run: its name, its time [s] and the state at that time."""

    name: str
    t: float
    q: np.ndarray
    v: np.ndarray

#: What only takes energy, among what changes it.
DISSIPATING = ("damping", "friction", "stops", "damped springs", "damped bushings", "contact")



@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """A motion of a model over time: samples of its states, and what made them.

    `t` [s] has shape (T,) and increases, `q` (T, nq), `v` (T, nv); `vdot`, the accelerations at the samples, and `tau`, the joint forces
    that were applied, are (T, nv) or None. `info` says how the run was made and why it stopped, `events` what happened on the way. Nothing
    can be changed; the arrays are read-only.

    >>> m = ct.Model("slider")
    >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    >>> t = np.linspace(0.0, 1.0, 5)
    >>> info = {"integrator": "by hand", "stopped": "end"}
    >>> run = ct.Trajectory(m, t, q=t[:, None]**2, v=2 * t[:, None], vdot=np.full((5, 1), 2.0), info=info)
    >>> run
    <Trajectory 'slider': t = 0 to 1 s, 5 samples, by hand, stopped: end>
    >>> run["cart"]
    array([0.    , 0.0625, 0.25  , 0.5625, 1.    ])
    >>> run.total_energy[-1]
    np.float64(4.0)
    """

    model: Mechanism
    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    vdot: np.ndarray | None = None
    tau: np.ndarray | None = None
    info: dict[str, Any] = field(default_factory=dict, kw_only=True)
    events: tuple[Occurrence, ...] = field(default=(), kw_only=True)

    #: Names and units of the coordinates, as they were when the run was made.
    q_names: tuple[str, ...] = field(init=False)
    v_names: tuple[str, ...] = field(init=False)
    q_units: tuple[str, ...] = field(init=False)
    v_units: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.model, Mechanism):
            raise ArgumentError(f"trajectory: {self.model!r} is not a model; give a ct.Model")
        object.__setattr__(self, "model", self.model.frozen())
        for name in ("q_names", "v_names", "q_units", "v_units"):
            object.__setattr__(self, name, getattr(self.model, name))
        if not self.v_names:
            raise ArgumentError(f"trajectory: model '{self.model.name}' has no coordinates; add a body that moves and is not driven")
        t = _array("t", self.t)
        if t.ndim != 1 or len(t) == 0:
            raise ArgumentError(f"trajectory: t has shape {t.shape}; give at least one time, as an array of shape (T,)")
        if not np.isfinite(t).all():
            at = int(np.argmin(np.isfinite(t)))
            raise ArgumentError(f"trajectory: t[{at}] is {t[at]}; give finite times")
        if (np.diff(t) <= 0.0).any():
            at = int(np.argmax(np.diff(t) <= 0.0))
            raise ArgumentError(f"trajectory: t[{at + 1}] = {t[at + 1]!r} does not come after t[{at}] = {t[at]!r}; give increasing times")
        object.__setattr__(self, "t", t)
        sizes = {"q": len(self.q_names), "v": len(self.v_names), "vdot": len(self.v_names), "tau": len(self.v_names)}
        for name, size in sizes.items():
            value = getattr(self, name)
            if value is None and name in ("vdot", "tau"):
                continue
            array = _array(name, value)
            if array.shape != (len(t), size):
                raise ArgumentError(
                    f"trajectory: {name} has shape {array.shape}; with {len(t)} times, model '{self.model.name}' takes ({len(t)}, {size})"
                )
            object.__setattr__(self, name, array)
        info = {str(key): value.item() if isinstance(value, np.generic) else value for key, value in self.info.items()}
        object.__setattr__(self, "info", info)
        object.__setattr__(self, "events", tuple(self._event(event) for event in self.events))

    def _event(self, event: Any) -> Occurrence:
        name, t, q, v = event
        q, v = _array(f"event '{name}' q", q), _array(f"event '{name}' v", v)
        if q.shape != (len(self.q_names),) or v.shape != (len(self.v_names),):
            raise ArgumentError(
                f"trajectory: event '{name}' has q of shape {q.shape} and v of shape {v.shape}; "
                f"model '{self.model.name}' takes ({len(self.q_names)},) and ({len(self.v_names)},)"
            )
        return Occurrence(str(name), float(t), q, v)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.t)

    __iter__ = None  # a run is neither its samples nor its coordinates

    def __repr__(self) -> str:
        made, stopped = self.info.get("integrator"), self.info.get("stopped")
        samples = f"{len(self)} sample{'s' if len(self) > 1 else ''}"
        made_by = f"{f', {made}' if made else ''}{f', stopped: {stopped}' if stopped else ''}"
        return f"<Trajectory {self.model.name!r}: t = {self.t[0]:.6g} to {self.t[-1]:.6g} s, {samples}{made_by}>"

    def _repr_html_(self) -> str:
        described = facts(f"Trajectory of {self.model.name}", {
            "time": f"{self.t[0]:.6g} to {self.t[-1]:.6g} s, {len(self):,} samples",
            "made by": ", ".join(str(self.info[key]) for key in ("integrator", "method") if self.info.get(key)),
            "stopped": str(self.info.get("stopped", "")), "events": ", ".join(dict.fromkeys(event.name for event in self.events)),
        })  # fmt: skip
        units = [f"{name} [{unit}]" if unit else name for name, unit in zip(self.q_names, self.q_units, strict=True)]
        columns = zip(units, self.q.T, strict=True)
        rows = [(name, *(f"{x:.6g}" for x in (column[0], column[-1], column.min(), column.max()))) for name, column in columns]
        return described.html() + Table("", ("position", ">start", ">end", ">least", ">most"), rows).html()

    # --- coordinates and energies

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the position coordinates."""
        return self.q_names

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a position coordinate over time, by its name."""
        return self.q[:, self._index("position", self.q_names, name)]

    def velocity(self, name: str) -> np.ndarray:
        """Return a velocity coordinate over time, by its name."""
        return self.v[:, self._index("velocity", self.v_names, name)]

    def _index(self, kind: str, names: Sequence[str], name: Any) -> int:
        if name not in names:
            raise ArgumentError(f"model '{self.model.name}' has no {kind} coordinate {name!r}; {choice(name, names)}")
        return names.index(name)

    @cached_property
    def energy(self) -> tuple[np.ndarray, np.ndarray]:
        """Kinetic and potential energy over time [J]."""
        return read_only(self._of(energy(self.model)))

    @property
    def _input(self) -> np.ndarray:
        """The joint forces that were put in, none where they are not known."""
        return np.zeros(self.v.shape) if self.tau is None else self.tau

    def _of(self, kernel: Any) -> Any:
        """Return what a kernel gives at the samples; without joint forces, these are zero."""
        known = {"t": self.t, "q": self.q, "v": self.v, "tau": self._input}
        return kernel(*(known[port.name] for port in kernel.inputs))

    def exceeded(self) -> dict[str, tuple[float, float]]:
        """Return where the run goes beyond limits of joints: by coordinate and limit, the first time [s] and how far it goes at most.

        The limits are the `limits` of positions, the `velocity` and the `effort` of joints, which the joint forces put in are compared
        with. Those of positions are stiff stops, which give a little.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y", velocity=2.0, effort=5.0))
        >>> run = ct.simulate(m, [0.0], until=2.0, controller=lambda t, q, v: [6.0 * np.sin(t)])
        >>> {limit: (round(when, 2), round(most, 2)) for limit, (when, most) in run.exceeded().items()}
        {'arm velocity': (0.14, 12.69), 'arm effort': (1.0, 1.0)}
        """
        found = {}
        for link, at_q, at_v in self.model.slices():
            joint, q, v, tau = link.joint, self.q[:, at_q], self.v[:, at_v], self._input[:, at_v]
            beyond = {"velocity": np.abs(v) - joint.most_velocity, "effort": np.abs(tau) - joint.most_effort}
            if joint.nq == joint.nv:
                beyond = {"position": np.maximum(q - joint.upper, joint.lower - q), **beyond}
            for limit, excess in beyond.items():
                for name, over in zip(self.v_names[at_v], excess.T, strict=True):
                    if (over > 0.0).any():
                        found[f"{name} {limit}"] = (float(self.t[np.argmax(over > 0.0)]), float(np.nanmax(over)))
        return found

    @cached_property
    def total_energy(self) -> np.ndarray:
        """Kinetic plus potential energy over time [J]."""
        return read_only(self.energy[0] + self.energy[1])

    @cached_property
    def energy_change(self) -> np.ndarray:
        """Change of the total energy since the start, relative to the largest of |E| and the span of the kinetic energy.

        The scale is one number for the whole run. The span is there because the zero of the potential energy is a matter of choice: a run
        may have E = 0 throughout. Where the model conserves energy the change is the error of the integrator; else `energy_causes` says
        what gives and takes it. Driven joints do at the rate `driving_power`.

        >>> m = ct.Model("door")
        >>> m.add("leaf", ct.box(0.8, 0.04, 2.0, mass=20.0), ct.Revolute("z", damping=1.5))
        >>> run = ct.simulate(m, [0.0], [1.0], until=1.0)
        >>> run.energy_change[-1].round(3), run.energy_causes
        (np.float64(-0.94), ('damping',))
        """
        return read_only((self.total_energy - self.total_energy[0]) / self._energy_scale)

    @property
    def drift(self) -> np.ndarray:
        """The former name of `energy_change`."""
        warnings.warn("Trajectory.drift is now Trajectory.energy_change", DeprecationWarning, stacklevel=2)
        return self.energy_change

    @property
    def energy_causes(self) -> tuple[str, ...]:
        """What may have changed the energy during the run; empty where it was conserved.

        That is what the model has, without stops that no joint came to; joint forces, such as those of a controller; and events that
        changed the state.
        """
        causes = list(self.model.changes_energy)
        if "stops" in causes and not any(limit.endswith(" position") for limit in self.exceeded()):
            causes.remove("stops")
        causes += ["joint forces"] if self.tau is not None and self.tau.any() else []
        return (*causes, *(["events"] if self._jumps() or self._missed_jumps() else []))

    @property
    def _energy_reason(self) -> str:
        """Why the energy changed, in words; nothing where it was conserved."""
        causes = self.energy_causes
        lost = [cause for cause in causes if cause in DISSIPATING]
        work = [cause for cause in causes if cause not in (*DISSIPATING, "events")]
        kinds = {"dissipated by": lost, "work of": work, "jumps at": [cause for cause in causes if cause == "events"]}
        return "; ".join(f"{kind} {listed(some)}" for kind, some in kinds.items() if some)

    @cached_property
    def _energy_scale(self) -> float:
        kinetic, total = self.energy[0], self.total_energy
        finite = np.isfinite(kinetic) & np.isfinite(total)
        scale = max(np.abs(total[finite]).max(), np.ptp(kinetic[finite])) if finite.any() else 0.0
        return float(scale) or 1.0  # without any energy there is no change

    @property
    def driven_names(self) -> tuple[str, ...]:
        """Names of the coordinates that are driven, in the order of `driving_force`."""
        return self.model.driven_names

    @cached_property
    def driving_force(self) -> np.ndarray:
        """What the driven joints took over time, (T, len(driven_names)): torques [N m] along angles, forces [N] along displacements.

        >>> m = ct.Model("cart-pole", gravity=(0, 0, -9.81))
        >>> m.add("cart", ct.point_mass(2.0), ct.Driven(ct.Prismatic("x"), lambda t: 0.1 * t**2))
        >>> m.add("pole", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y"), parent="cart")
        >>> run = ct.simulate(m, [0.0], until=0.5)
        >>> run.driven_names, run.driving_force[0].round(6)
        (('cart',), array([0.4]))
        """
        return read_only(self._of(driving_forces(self.model)))

    @cached_property
    def driving_power(self) -> np.ndarray:
        """Power [W] of what drives the joints over time, (T,)."""
        rates = [np.concatenate([given.v for given in self.model.driven_motion(t)]) for t in self.t]
        return read_only(np.sum(self.driving_force * np.array(rates, dtype=float), axis=1))

    @property
    def loop_names(self) -> tuple[str, ...]:
        """Names of the loops, then of the couplings, in the order of `loop_error`."""
        return tuple(closing.name for closing in (*self.model.loops, *self.model.couplings))

    @cached_property
    def loop_error(self) -> np.ndarray:
        """How far each loop and coupling was open over time, (T, len(loop_names)), as `ct.loop_error` measures it.

        >>> m = examples.four_bar()
        >>> run = ct.simulate(m, m.assemble(crank=1.0), until=0.5)
        >>> run.loop_names, bool(run.loop_error.max() < 1e-12)
        (('pin',), True)
        """
        return read_only(self._of(loop_error(self.model)))

    @property
    def reaction_names(self) -> tuple[str, ...]:
        """Names of the joints in the order of `reactions`: those of the bodies, then those that close loops."""
        return (*self.model.body_names, *(closure.name for closure in self.model.loops))

    @cached_property
    def reactions(self) -> np.ndarray:
        """What every joint transmitted over time, (T, len(reaction_names), 6): moment [N m] and force [N], as `ct.joint_wrenches` gives it.

        Components that are not unique, because constraints are redundant, are not a number.

        >>> m = examples.four_bar()
        >>> run = ct.simulate(m, m.assemble(crank=1.0), until=0.5)
        >>> run.reaction_names
        ('crank', 'coupler', 'rocker', 'pin')
        >>> run.reactions[0, 3].round(3) + 0.0
        array([   nan,  0.   ,    nan, 19.198,    nan, -0.852])
        """
        kernel = joint_wrenches(self.model)
        unique = np.all([kernel.unique_at(self.q[i], self.t[i]) for i in self._some], axis=0)
        return read_only(np.where(unique, self._of(kernel), np.nan))

    # --- other times

    def at(self, times: Any) -> Trajectory:
        """Return the motion at other times within its span: one time or an increasing array of them.

        States are interpolated on the manifolds of the joints, with errors of order h^6 in q, h^5 in v and h^4 in vdot for samples h apart;
        h^4 and h^3 where the trajectory holds no vdot. Quaternions stay at length 1; they are interpolated where a body turns less than
        half a turn between samples. Loops that are closed at the samples are closed in between. `tau` is interpolated linearly. At the
        samples themselves the states are the samples. Where an event changed the state, at a time that is also a sample's, the motion
        before it goes to the state before.

        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        >>> run = ct.Trajectory(m, [0.0, 1.0], q=[[0.0], [1.0]], v=[[0.0], [2.0]], vdot=[[2.0], [2.0]])
        >>> run.at([0.0, 0.5])["cart"]
        array([0.  , 0.25])
        """
        wanted = np.atleast_1d(_array("times", times))
        first, last = self.t[0], self.t[-1]
        slack = 1e-12 * max(abs(first), abs(last))  # the rounding of times that were added up
        outside = ~((wanted >= first - slack) & (wanted <= last + slack))
        if outside.any():
            raise ArgumentError(
                f"at: time {wanted[outside][0]:.6g} s is outside of the run, which spans {first:.6g} to {last:.6g} s; give times within it"
            )
        wanted = np.clip(wanted, first, last)
        if wanted.ndim != 1 or len(wanted) == 0 or (np.diff(wanted) <= 0.0).any():
            raise ArgumentError("at: the times do not increase; give one time, or an array of shape (T,) of increasing times")
        found = self._between(wanted)
        if not self.model.has_loops:
            return found
        whole, k = opening(self.model, self.t, self.q) <= LOOSE, np.searchsorted(self.t, wanted)
        between = np.flatnonzero((self.t[k] > wanted) & whole[k] & whole[k - 1])
        q, v = found.q.copy(), found.v.copy()
        q[between], v[between] = on_constraints(self.model, wanted[between], q[between], v[between], self._rank)
        return Trajectory(self.model, wanted, q, v, found.vdot, found.tau, info=self.info, events=found.events)

    def _between(self, times: np.ndarray) -> Trajectory:
        """Return the motion at other times within its span, checked, as it is interpolated: loops may be open a little."""
        q, v, vdot = interpolate(self, times, self._jumps())
        tau = None if self.tau is None else np.stack([np.interp(times, self.t, column) for column in self.tau.T], axis=1)
        events = tuple(event for event in self.events if times[0] <= event.t <= times[-1])
        return Trajectory(self.model, times, q, v, vdot, tau, info=self.info, events=events)

    def _fine(self, points: int, *, closed: bool) -> Trajectory:
        """Return the run with states between samples that are more than a part of `points` of its time apart, for lines to be smooth.

        A jump has two samples, next to each other in time. Loops are `closed` to rounding in between, or as the states are interpolated.
        """
        if len(self) == 1:
            return self
        jumps, h = self._jumps(), np.diff(self.t)
        parts = np.ceil(points * h / (self.t[-1] - self.t[0])).astype(int).clip(1)
        finite = np.asarray(np.isfinite(np.concatenate([self.q, self.v], axis=1)).all(axis=1))
        parts[~(finite[1:] & finite[:-1])] = 1
        long = np.flatnonzero(parts > 1)
        parts[long[~agree(self, jumps, long)]] = 1
        parts[self._missed_jumps()] = 1
        k = np.repeat(np.arange(len(h)), parts)
        inside = self.t[k] + h[k] * (np.arange(len(k)) - np.repeat(np.cumsum(parts) - parts, parts)) / parts[k]
        before = np.array([i - 1 for i in jumps], dtype=int)
        before = before[self._turn_known(before)]
        times = np.unique(np.concatenate([inside, self.t[-1:], np.nextafter(self.t[before + 1], -np.inf)]))
        with np.errstate(invalid="ignore"):  # a state that is not finite is drawn as a gap
            return self.at(times) if closed else self._between(times)

    def _missed_jumps(self) -> list[int]:
        """Return after which samples an event changed the state, in a way that no sample at its time shows."""
        at = [(int(np.searchsorted(self.t, event.t)) - 1, event) for event in self.events]
        inside = [(k, event) for k, event in at if 0 <= k < len(self) - 1 and self.t[k + 1] != event.t]
        known = self._turn_known(np.array([k for k, _ in inside], dtype=int))
        missed = []
        for k, event in (pair for pair, one in zip(inside, known, strict=True) if one):
            off = np.abs(self._between(np.array([event.t])).v[0] - event.v).max()
            if off > 0.01 * np.abs(self.v[k : k + 2] - event.v).max() + 1e-9 * np.abs(event.v).max():
                missed.append(k)
        return missed

    def _turn_known(self, k: np.ndarray) -> np.ndarray:
        """Return whether no body turns too far for its rotation to be known between samples k and the next."""
        known = np.ones(len(k), dtype=bool)
        for turn in turns(self, self._jumps(), k).values():
            known &= turn < np.pi
        return known

    @property
    def _some(self) -> tuple[int, ...]:
        """Numbers of some samples: the first, one in the middle, the last."""
        return 0, len(self) // 2, len(self) - 1

    @property
    def _rank(self) -> int:
        """How many constraints are independent along the motion; at a singular configuration on the way there are fewer."""
        return max(rank(self.model.at(self.t[i]), self.q[i]) for i in self._some)

    def _jumps(self) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """Return the states before jumps by the number of the sample after: an event at a sample's time in another state than that."""
        jumps: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        for event in self.events:
            i = int(np.searchsorted(self.t, event.t))
            sampled = 0 < i < len(self) and self.t[i] == event.t
            if sampled and not (np.array_equal(self.q[i], event.q) and np.array_equal(self.v[i], event.v)):
                jumps.setdefault(i, (event.q, event.v))
        return jumps

    # --- out: pictures, tables, files

    def plot(self, path: str | os.PathLike[str] | None = None, what: str | Sequence[str] | None = None) -> Figure:
        """Return a figure of the run; with a path, also write it to a .png, .svg or .pdf file.

        `what` names the quantities to show, in their order; without it these are "q", "v", "energy", "energy_change" and, with loops,
        "loop_error". There are also "vdot", "tau", "reactions" (sizes of forces and moments in the joints, of their unique components),
        "phase" (velocity over position, for each coordinate whose velocity is its rate) and, where joints are driven, "driving_force".
        Coordinates with the same unit share axes. Lines follow the motion between the samples; what does not change, and errors that are
        rounding, are remarks below the panels. Needs matplotlib: `pip install "catena[plot]"`.

        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        >>> figure = ct.simulate(m, [0.0], [1.0], until=1.0).plot(what=("q", "phase"))
        >>> [axes.get_ylabel() for axes in figure.axes]
        ['displacement [m]', 'velocity [m/s]']
        """
        from catena.view.plots import plot  # here, because the view is made of trajectories and needs an optional package

        return plot(self, path, what)

    def animate(
        self, path: str | os.PathLike[str], *, fps: float = 25.0, speed: float = 1.0, size: tuple[int, int] = (640, 480),
        show: str | Collection[str] = (),
    ) -> None:  # fmt: skip
        """Write a film of the run: a page (.html) that any browser opens without a network, .gif, or .mp4 by ffmpeg.

        `fps` pictures are made for every `speed` seconds of the run; `size` [pixels] is that of the pictures, and `show` names what is
        drawn besides the bodies: "frames", "centres" of mass, "forces" of joints and contacts. In a page the view can be turned, the run
        played, and what is shown be switched. A mechanism that travels more than twice its size is followed by the camera. Pages need
        viser, `pip install "catena[view]"`; other films Pillow, `pip install "catena[plot]"`.

        >>> import pathlib, tempfile
        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> run = ct.simulate(m, [0.0], until=0.2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.animate(pathlib.Path(folder, "pendulum.gif"), size=(160, 120))
        ...     print(*(file.name for file in pathlib.Path(folder).iterdir()))
        pendulum.gif
        """
        from catena.view.animation import animate  # here, because the view is made of trajectories and needs optional packages

        animate(self, path, fps=fps, speed=speed, size=size, show=show)

    def draw(self, path: str | os.PathLike[str], times: Sequence[float] = (), *, size: tuple[int, int] = (320, 320)) -> None:
        """Write a picture (.png) of the model at several times [s] of the run, side by side; without times, at four from start to end.

        Needs Pillow, `pip install "catena[plot]"`.

        >>> import pathlib, tempfile
        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ct.simulate(m, [0.0], until=0.6).draw(pathlib.Path(folder, "fall.png"), [0.0, 0.3, 0.6])
        """
        from catena.view.animation import strip  # here, because the view is made of trajectories and needs an optional package

        strip(self.at(times if len(times) else np.linspace(self.t[0], self.t[-1], 4)), path, size)

    def view(self, *, port: int = 8080, browser: bool = True, wait: bool | None = None) -> Viewer:
        """Show the run in the browser: to be played, and turned; its joints can be moved. Needs viser: `pip install "catena[view]"`.

        The page is served on this machine alone, at a free `port` from the given one on, and opened unless `browser` is False. Scripts
        wait until Ctrl-C ends it, interactive sessions go on; `wait` says so, too.
        """
        from catena.view.viewer import view  # here, because the view is made of trajectories and needs an optional package

        return view(self, port=port, browser=browser, wait=wait)

    def to_xarray(self) -> Dataset:
        """Return the run as an xarray Dataset, with coordinates by name and units. Needs xarray: `pip install "catena[data]"`.

        Variables are `q` (time, q_name), `v` (time, v_name), `vdot` and `tau` where they are known, `kinetic` and `potential`; units stand
        in the coordinates `q_unit` and `v_unit`. One coordinate over time is `run.to_xarray().q.sel(q_name="crank")`.
        """
        from catena.simulation.trajectory_files import dataset  # here, because files are made of trajectories

        return dataset(self)

    def to_pandas(self) -> DataFrame:
        """Return the run as a pandas DataFrame, indexed by time [s], with the columns of `to_csv`.

        Needs pandas: `pip install "catena[data]"`.

        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        >>> run = ct.Trajectory(m, [0.0, 1.0], q=[[0.0], [0.5]], v=[[0.5], [0.5]])
        >>> run.to_pandas()[["q cart [m]", "kinetic [J]"]]
               q cart [m]  kinetic [J]
        t [s]
        0.0           0.0         0.25
        1.0           0.5         0.25
        """
        from catena.simulation.trajectory_files import frame  # here, because files are made of trajectories

        return frame(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run to a file that `Trajectory.load` reads: .npz (NumPy), or .nc (NetCDF; needs xarray).

        The model is in the file as well, unless it has parts made of Python code. An existing file is replaced in one step or left as it
        is.
        """
        from catena.simulation.trajectory_files import save  # here, because files are made of trajectories

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str], model: Mechanism | None = None) -> Trajectory:
        """Return the run that `save` wrote; `model` is needed where the file could not hold it.

        >>> import pathlib, tempfile
        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        >>> run = ct.Trajectory(m, [0.0, 1.0], q=[[0.0], [1.0]], v=[[1.0], [1.0]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "run.npz")
        ...     run.save(file)
        ...     ct.Trajectory.load(file)
        <Trajectory 'slider': t = 0 to 1 s, 2 samples>
        """
        from catena.facade import Model  # here, because it is made of all that there is
        from catena.simulation.trajectory_files import load  # here, because files are made of trajectories

        return load(path, model, Model)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a table with one row per sample, all digits, and names and units in its head: time, q, v, vdot, tau, energies.

        >>> import pathlib, tempfile
        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        >>> run = ct.Trajectory(m, [0.0, 1.0], q=[[0.0], [0.1]], v=[[0.1], [0.1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "run.csv")
        ...     run.to_csv(file)
        ...     print(file.read_text())
        t [s],q cart [m],v cart [m/s],kinetic [J],potential [J]
        0.0,0.0,0.1,0.010000000000000002,0.0
        1.0,0.1,0.1,0.010000000000000002,0.0
        <BLANKLINE>
        """
        from catena.simulation.trajectory_files import write_csv  # here, because files are made of trajectories

        write_csv(self, path)

    def _quantities(self) -> Iterator[tuple[str, np.ndarray, tuple[str, ...], tuple[str, ...]]]:
        """Yield symbol, samples, names and units of everything that the run holds per coordinate."""
        yield "q", self.q, self.q_names, self.q_units
        yield "v", self.v, self.v_names, self.v_units
        if self.vdot is not None:
            yield "vdot", self.vdot, self.v_names, tuple(f"{unit}^2" if unit.endswith("/s") else "" for unit in self.v_units)
        if self.tau is not None:
            yield "tau", self.tau, self.v_names, force_units(self.v_units)


def force_units(units: tuple[str, ...]) -> tuple[str, ...]:
    """Return the units of what is conjugate to velocities."""
    return tuple({"rad/s": "N m", "m/s": "N"}.get(unit, "") for unit in units)


def _array(name: str, value: Any) -> np.ndarray:
    """Return real numbers as a new array that cannot be written to."""
    return read_only(np.array(floats(f"trajectory: {name}", value, "give an array of floats"), order="C"))
