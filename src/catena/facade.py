"""The classes that users hold: `Model` builds a mechanism, and assembles, analyses, saves and shows it; `load` reads one from a file."""

from __future__ import annotations

import base64
import copy
import os
from collections.abc import Collection, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from catena import files
from catena.errors import CatenaError
from catena.loops.assembly import assemble, assemble_all, project_velocity
from catena.loops.mobility import Mobility, mobility
from catena.model import sections
from catena.model.composer import Composer
from catena.model.mechanism import Mechanism
from catena.model.outline import COLUMNS, outline
from catena.model.parameters import given_values
from catena.tables import Table

if TYPE_CHECKING:
    from catena.view.viewer import Viewer


#: Names that other modules of catena use; `dir(model)` does not list them.
INTERNAL = frozenset({
    "bound", "carrier", "cayley", "cayley_momentum", "cayley_velocity", "chart", "chart_rate", "check_body", "checked",
    "checked_position", "coordinate_places", "driven_joints", "driven_motion", "folder", "given_inputs", "instant",
    "momentum_in_child_axes", "momentum_in_parent_axes", "moved", "of", "once", "parts", "pushed", "quaternions", "random_nearby",
    "search_start", "slices", "spanning", "timed", "tree_with", "varied", "varying", "with_tree",
})  # fmt: skip


class _ModelMethods(Mechanism):
    """What users do with a model, frozen or not."""

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - INTERNAL)

    def assemble(
        self,
        guess: Any = None,
        fixed: Mapping[str, float] | None = None,
        t: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        **coordinates: float,
    ) -> np.ndarray:
        """Return positions q that close all loops, near a guess; coordinates given by name keep their value.

        Driven joints have their positions of the time t [s], 0 if not given; without a guess they are moved there from t = 0.

        The guess selects the branch where a mechanism can be assembled in several ways; without one the search begins at `home`.
        Coordinates move from there to their values in steps, so that the mechanism stays on its branch.
        Regular configurations are preferred to singular ones, unless the guess nearly closes the loops.
        Positions within the limits of the joints are preferred; a `LimitWarning` names coordinates beyond their limits where the search
        finds no others.
        `fixed` takes names that are not Python's, such as those of joints with several coordinates.
        `parameters` has other numbers of the model, by the paths of `m.parameters`; with leading axes, the positions have these too: one
        configuration for each geometry, led there from the model's own. One that does not go together is NaN, with an `AssemblyWarning`.

        >>> m = ct.Model("slider-crank")
        >>> m.add("crank", ct.rod(0.3, mass=1.0), ct.Revolute("y"))
        >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
        >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
        >>> m.assemble(crank=np.pi / 2).round(3)
        array([ 1.571, -2.214,  0.4  ])
        """
        held = {**(fixed or {}), **self._named(t, coordinates)}
        if parameters:
            m = self.frozen().varying(tuple(parameters), "assemble")
            return assemble_all(self.frozen(), given_values(m, parameters, "assemble"), guess, held, t)
        return assemble(self, guess, held, t)

    def project_velocity(
        self, q: Any, v: Any = None, fixed: Mapping[str, Any] | None = None, t: float | None = None, **rates: Any
    ) -> np.ndarray:
        """Return velocities that keep all loops closed at q, the nearest to v by kinetic energy; rates given by name keep their value.

        Leading axes of q (..., nq), v (..., nv) and rates (...) broadcast. Driven joints have their velocities of the time t [s], 0 if not
        given.

        >>> m = ct.Model("gears")
        >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
        >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
        >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
        >>> m.project_velocity([0.0, 0.0], large=1.0)
        array([-2.,  1.])
        >>> m.project_velocity([0.0, 0.0], large=[1.0, 2.0])
        array([[-2.,  1.],
               [-4.,  2.]])
        """
        return project_velocity(self, q, v, {**(fixed or {}), **self._named(t, rates)}, t)

    def _named(self, t: float | None, named: dict[str, Any]) -> dict[str, Any]:
        """Return the coordinates given by name; where nothing is driven, t is the name of a coordinate."""
        return named if self.driven_names or t is None else {**named, "t": t}

    def mobility(self, q: Any = None, t: float | None = None) -> Mobility:
        """Return the degrees of freedom that the loops leave, their redundant constraints, and independent coordinates.

        They are those at q, or else at a generic configuration. Driven joints have their positions of the time t [s]; where it is not
        given, of t = 0 with q, else of a generic time.

        >>> m = ct.Model("gears")
        >>> m.add("small", ct.cylinder(0.05, 0.1, mass=1.0), ct.Revolute("z"))
        >>> m.add("large", ct.cylinder(0.05, 0.2, mass=4.0), ct.Revolute("z"), at=(0.3, 0, 0))
        >>> m.couple("mesh", {"small": 1.0, "large": 2.0})
        >>> m.mobility().freedom
        1
        """
        return mobility(self, q, t)

    def at(self, t: float) -> FrozenModel:
        """Return the model, frozen, at a time [s]: its driven joints have the positions and velocities of this time.

        >>> m = ct.Model("slider-crank")
        >>> m.add("crank", ct.rod(0.3, mass=1.0), ct.Driven(ct.Revolute("y"), lambda t: 2.0 * t))
        >>> m.add("rod", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="crank", at=(0.3, 0, 0))
        >>> m.add("piston", ct.point_mass(1.0), ct.Prismatic("x"))
        >>> m.close("pin", ct.Revolute("y"), "rod", "piston", at_a=(0.5, 0, 0))
        >>> m.at(np.pi / 4).assemble().round(3)  # the crank is upright
        array([-2.214,  0.4  ])
        """
        model = super().at(t)
        assert isinstance(model, FrozenModel)
        return model

    def save(self, path: str | os.PathLike[str], ignore: str | Collection[str] = ()) -> None:
        """Write the model to a file that `ct.load` reads: TOML (.toml), which holds everything but Python code, or URDF (.urdf) for trees.

        What URDF cannot hold is an error, unless the model moves alike without it and `ignore` names it: "parameters" of your own, of
        which numbers keep their values, "home" and "keyframes". An existing file is replaced in one step or left as it is.
        """
        files.save(self, path, ignore)

    def draw(
        self, path: str | os.PathLike[str], q: Any = None, t: float = 0.0, size: tuple[int, int] = (640, 480), frames: bool = False
    ) -> None:
        """Write a picture (.png) of the model at q, or assembled where q is not given; needs Pillow, `pip install "catena[plot]"`.

        With `frames`, it has the axes of the bodies, and of the frames of the model with their names.

        >>> import pathlib, tempfile
        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     m.draw(pathlib.Path(folder, "pendulum.png"), q=[0.5])
        """
        from catena.view.animation import draw  # here, because it needs an optional package

        draw(self, path, q, t, size, frames)

    def _repr_html_(self) -> str:
        """Return the bodies as a table, and a picture of the model, for notebooks."""
        if repr(self).endswith(", incomplete>"):
            return f"<pre>{escape(repr(self))}</pre>"
        from catena.view.animation import png  # here, because it needs an optional package

        described = Table(repr(self).strip("<>"), COLUMNS, outline(self)).html()
        if not self.links:
            return described
        try:
            shown = f'<img src="data:image/png;base64,{base64.b64encode(png(self, size=(320, 240))).decode()}" alt="{escape(self.name)}">'
        except CatenaError as error:  # a table without a picture, which says why
            shown = f"<div>no picture: {escape(str(error))}</div>"
        return f"{described}{shown}"

    def view(self, q: Any = None, *, port: int = 8080, browser: bool = True, wait: bool | None = None) -> Viewer:
        """Show the model in the browser, with sliders for its joints; loops stay closed. Needs viser: `pip install "catena[view]"`.

        The page is served on this machine alone, at the first free port from `port` on, and opened unless `browser` is False. Scripts
        wait until Ctrl-C ends it, interactive sessions go on; `wait` overrides this.
        """
        from catena.view.viewer import view  # here, because it needs an optional package

        return view(self, q, port=port, browser=browser, wait=wait)

    def copy(self) -> Model:
        """Return a copy that can be changed, also of a frozen model.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> longer = m.copy()
        >>> longer.scale(2.0)
        >>> m.links[0].body.com, longer.links[0].body.com
        ((0.5, 0.0, 0.0), (1.0, 0.0, 0.0))
        """
        return Model.of(self.parts.opened())

    def submodel(self, bodies: str | Collection[str], name: str | None = None) -> Model:
        """Return a model of bodies and everything that hangs on them; its ground stands for the body that they hang on.

        Loops, couplings, springs, forces and actuators between these are part of it; `notes` tells which others are not. What is left
        is `m.remove(body)`, and `m.attach(part, to)` puts it back.

        >>> m = ct.Model("arm")
        >>> m.add("upper", ct.rod(0.5, mass=2.0), ct.Revolute("y"))
        >>> m.add("lower", ct.rod(0.5, mass=1.0), ct.Revolute("y"), parent="upper", at=(0.5, 0, 0))
        >>> m.add("hand", ct.rod(0.1, mass=0.2), ct.Revolute("y"), parent="lower", at=(0.5, 0, 0))
        >>> part = m.submodel("lower")
        >>> part.body_names, part.links[0].parent
        (('lower', 'hand'), 'ground')
        """
        chosen = (bodies,) if isinstance(bodies, str) else tuple(bodies)
        part = Model.of(sections.submodel(self.frozen(), chosen))
        part.name = f"{self.name} {', '.join(chosen)}" if name is None else name
        return part

    def __copy__(self) -> Model:
        return Model.of(self.parts.opened())

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return Model.of(copy.deepcopy(self.parts.opened(), memo))


class FrozenModel(_ModelMethods):
    """A model that does not change: what `Model.frozen` returns, and what kernels and runs hold."""


class Model(_ModelMethods, Composer):
    """A mechanism: bodies hung on the ground or on each other by joints, and loops of them closed by further joints.

    `gravity` [m/s^2] is in the ground's axes. `friction_speed` is the speed over which Coulomb friction is smoothed: one for all
    joints [rad/s or m/s], or two, along angles [rad/s] and along displacements [m/s].

    >>> m = ct.Model("pendulum", gravity=(0, 0, -9.81))
    >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
    >>> m.q_names
    ('arm',)
    """

    _frozen_type = FrozenModel

    def frozen(self) -> FrozenModel:
        """Return the model as it is now, which does not change: changes of this one do not reach it, and it refuses its own.

        Kernels and runs hold frozen models, so that their results stay the same. As long as a model does not change, its frozen model is
        the same object, and kernels that were compiled for it are found again. A copy, by `copy.copy` or `copy.deepcopy`, can be changed,
        also one of a frozen model; a frozen model that was pickled stays frozen.

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.rod(1.0, mass=2.0), ct.Revolute("y"))
        >>> before = m.frozen()
        >>> m.frozen() is before and before.frozen() is before
        True
        >>> m.add("hand", ct.sphere(0.1, mass=1.0), ct.Fixed(), parent="arm", at=(1, 0, 0))
        >>> before.body_names, m.frozen() is before
        (('arm',), False)
        """
        frozen = super().frozen()
        assert isinstance(frozen, FrozenModel)
        return frozen


def load(
    path: str | os.PathLike[str],
    *,
    floating_base: bool = False,
    ignore: str | Collection[str] = (),
    tolerance: float | None = None,
    contact: str | None = None,
    actuators: str | None = None,
) -> Model:
    """Return the model that a file describes: TOML (.toml), URDF (.urdf) or MJCF (.xml, by MuJoCo).

    `floating_base` lets the root link of a URDF file move freely. An element that would change the motion and that catena cannot represent
    is an error, unless `ignore` names it, as the message says; `Model.notes` lists what was ignored, and what was recognised.
    `contact="ignore"` and `actuators="ignore"` leave these out, and `ignore="unsupported"` everything that catena cannot represent.

    `contact="ground"` lets the <collision> shapes of a URDF file, or the geoms of an MJCF file with their friction, touch the ground by
    compliant contact, as `m.add_contact` adds it: z = 0, or the first plane of the MJCF file. Bodies do not touch each other.

    Loops need only close to the precision of the file: where they come nearest to closing, a closure residual of up to `tolerance`,
    relative to the loop's size or in radians, is absorbed by the joint frame on the second body, and noted in `Model.notes`. The default
    is 1e-4, sought near home only; with 0 nothing is absorbed.

    >>> import pathlib, tempfile
    >>> text = '''
    ... <robot name="pendulum">
    ...   <link name="base"/>
    ...   <joint name="hinge" type="continuous">
    ...     <parent link="base"/> <child link="arm"/> <axis xyz="0 1 0"/> <dynamics damping="0.1"/>
    ...   </joint>
    ...   <link name="arm">
    ...     <inertial>
    ...       <origin xyz="0.5 0 0"/> <mass value="2"/>
    ...       <inertia ixx="0.1" ixy="0" ixz="0" iyy="0.2" iyz="0" izz="0.2"/>
    ...     </inertial>
    ...   </link>
    ... </robot>
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pendulum.urdf")
    ...     _ = file.write_text(text)
    ...     ct.load(file), ct.load(file, floating_base=True)
    (<Model 'pendulum': 2 bodies, nq = 1, nv = 1>, <Model 'pendulum': 2 bodies, nq = 8, nv = 7>)
    """
    options: dict[str, Any] = {"floating_base": floating_base, "ignore": ignore, "tolerance": tolerance}
    return Model.of(files.load(path, **options, contact=contact, actuators=actuators).parts)
