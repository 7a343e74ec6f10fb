"""Natural modes of a mechanism about an equilibrium."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from catena.analysis.linearization import linearize
from catena.errors import ModelError
from catena.kernels.tracing import frozen
from catena.loops.assembly import assemble, project_velocity
from catena.loops.scaling import coordinate_units
from catena.model import Mechanism
from catena.simulation.trajectory import Trajectory

#: Accelerations that count as rest, and the imaginary part of an eigenvalue below which it counts as real; both relative.
_REST, _REAL = 1e-6, 1e-7


@dataclass(frozen=True, eq=False, repr=False)
class Mode:
    """A motion q + amplitude * real(shape exp(eigenvalue t)) of small size about an equilibrium q.

    `frequency` [Hz] is that of the damped oscillation, 0 of a motion that decays or grows without one; `damping` the part of the critical
    one, negative where the mode grows. `shape` (nv), along the velocity coordinates, has the largest entry 1 rad, or the size of the
    mechanism.
    """

    model: Mechanism
    q: np.ndarray
    eigenvalue: complex
    shape: np.ndarray
    t: float = 0.0

    @property
    def frequency(self) -> float:
        """Oscillations per second [Hz]."""
        return abs(self.eigenvalue.imag) / (2.0 * np.pi)

    @property
    def damping(self) -> float:
        """Part of the critical damping."""
        return -self.eigenvalue.real / abs(self.eigenvalue) if self.eigenvalue else 0.0

    def __repr__(self) -> str:
        rate = f"{self.frequency:.4g} Hz" if self.frequency else f"exp({self.eigenvalue.real:.4g} t)"
        return f"<Mode of {self.model.name!r}: {rate}, damping {self.damping:.3g}>"

    def motion(self, amplitude: float = 0.2, cycles: float = 1.0, samples: int = 61) -> Trajectory:
        """Return the undamped oscillation along the shape, with a largest entry of `amplitude`, over so many cycles; of a mode without an
        oscillation, a swing along the shape in a second.
        """
        rate = 2.0 * np.pi * (self.frequency or 1.0)
        times = np.linspace(0.0, cycles * 2.0 * np.pi / rate, samples)
        q, v = [], []
        for t in times:
            turned = amplitude * self.shape * np.exp(1j * rate * t)
            moved = self.model.integrate(self.q, turned.real)
            q.append(assemble(self.model, moved, {}, self.t) if self.model.has_loops else moved)
            v.append((1j * rate * turned).real)
        if self.model.has_loops:
            v = [project_velocity(self.model, *state, {}, self.t) for state in zip(q, v, strict=True)]
        return Trajectory(self.model, times, np.array(q), np.array(v), info={"integrator": "mode"})

    def animate(
        self, path: str | os.PathLike[str], *, amplitude: float = 0.2, cycles: float = 3.0, size: tuple[int, int] = (640, 480)
    ) -> None:
        """Write a film of the mode (.html, .gif or .mp4), two seconds for each cycle."""
        run = self.motion(amplitude, cycles, int(40 * cycles) + 1)
        run.animate(path, speed=float(run.t[-1]) / (2.0 * cycles), size=size)

    def draw(self, path: str | os.PathLike[str], *, amplitude: float = 0.2, size: tuple[int, int] = (400, 320)) -> None:
        """Write a picture (.png) of the mode: one end of the oscillation, the equilibrium and the other end, side by side."""
        run = self.motion(amplitude, 1.0, 5)
        run.draw(path, run.t[:3].tolist(), size=size)


class Modes(Sequence[Mode]):
    """The natural modes of a mechanism, slowest first; it prints as a table.

    `frequencies` [Hz] and `dampings` have an entry for each mode, `shapes` (nv, modes) a column.
    """

    def __init__(self, modes: Sequence[Mode]) -> None:
        self._modes = tuple(modes)

    @overload
    def __getitem__(self, index: int) -> Mode: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mode]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._modes[index]

    def __len__(self) -> int:
        return len(self._modes)

    @property
    def frequencies(self) -> np.ndarray:
        """Oscillations per second [Hz]."""
        return np.array([mode.frequency for mode in self])

    @property
    def dampings(self) -> np.ndarray:
        """Parts of the critical damping."""
        return np.array([mode.damping for mode in self])

    @property
    def shapes(self) -> np.ndarray:
        """Shapes, a column for each mode; complex where the coordinates swing out of step."""
        return np.stack([mode.shape for mode in self], axis=1)

    def __repr__(self) -> str:
        rows = [f"{'mode':>4}  {'frequency':>12}  {'damping':>9}  largest in"]
        for i, mode in enumerate(self):
            most = mode.model.v_names[int(np.argmax(np.abs(mode.shape) / coordinate_units(mode.model)))]
            rate = f"{mode.frequency:9.4g} Hz" if mode.frequency else f"{mode.eigenvalue.real:9.3g}/s"
            damping = mode.damping if abs(mode.damping) > 1e-9 else 0.0  # of a mechanism without any, but for rounding
            rows.append(f"{i:4d}  {rate:>12}  {damping:9.3g}  {most}")
        return "\n".join(rows)


def modes(m: Mechanism, q: Any, tau: Any = None, *, t: float = 0.0) -> Modes:
    """Return the natural modes of a mechanism about an equilibrium: frequencies, damping and shapes.

    `q` are positions at rest under the joint forces tau, such as those that `ct.equilibrium` finds.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(0, 0, -1)), ct.Revolute("y", damping=0.1))
    >>> ct.modes(m, [0.0])
    mode     frequency    damping  largest in
       0     0.4984 Hz      0.016  arm
    """
    m = frozen(m, "modes")
    linear = linearize(m, q, None, tau, t=t)
    count, reach = len(linear.names), coordinate_units(m)
    values, vectors = np.linalg.eig(linear.A)
    rest = np.abs(linear.vdot / reach).max(initial=0.0)
    if rest > _REST * max(np.abs(values).max(initial=0.0) ** 2, 1.0):
        raise ModelError(
            f"modes: model '{m.name}' is not at rest at q: it accelerates by {rest:.2g} 1/s^2; give an equilibrium, by ct.equilibrium(m, q)"
        )
    found = []
    for value, vector in zip(values, vectors.T, strict=True):
        small = abs(value.imag) <= _REAL * abs(value)
        if value.imag < 0.0 and not small:
            continue  # the conjugate of another
        shape = linear.basis @ vector[:count]
        size = shape / reach
        most = size[int(np.argmax(np.abs(size)))]
        shape = shape / most if most else shape
        shape = shape.real if np.abs(shape.imag).max() <= 1e-9 * np.abs(shape).max() else shape
        found.append(Mode(m, linear.q, complex(value.real, 0.0 if small else value.imag), shape, t))
    return Modes(sorted(found, key=lambda mode: (mode.frequency, mode.eigenvalue.real)))
