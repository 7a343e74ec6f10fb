"""A task: a model, what an agent does with it and how well, and how episodes begin; traced and compiled."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from catena.environments.draws import Draws
from catena.errors import ArgumentError
from catena.graph import Condition, Graph, Trace, traced_array, where
from catena.kernels.named_coordinates import coordinates
from catena.loops.mobility import mobility
from catena.loops.projection import on_constraints
from catena.model import Mechanism
from catena.model.actuators import Actuation
from catena.model.parameters import entry_of, given_values
from catena.model.user_functions import Role, own_array
from catena.model.values import by_name, floats
from catena.model.wording import short
from catena.native import Kernel, compile_graph
from catena.scalars import expression
from catena.simulation import arguments
from catena.simulation.arguments import moving, positive
from catena.simulation.loop_states import check_closed
from catena.simulation.stepper import stepper

Array = Any
Function = Callable[..., Any]

#: What ends an episode, as a sum: the function `terminate`, and a state, an observation or a reward that is not finite.
TERMINATED, FAILED = 1, 2

#: What functions return: in words, and its shape, None for what is looked at later.
_RETURNS: dict[str, tuple[str, Any]] = {
    "reset": ("a tuple (q, v), or (q, v, goal)", None),
    "observe": ("a vector, such as np.concatenate([q, v])", None),
    "reward": ("a number", ((),)),
    "terminate": ("a condition, or several", None),
    "show": ("points (n, 3)", None),
}


class Situation(NamedTuple):
    """One environment at a time: its state, goal, and numbers of the model by path."""

    t: float
    q: np.ndarray
    v: np.ndarray
    goal: np.ndarray
    parameters: dict[str, np.ndarray]


class Task:
    """A model, and what is asked of an agent that moves it: the description of which environments are made.

    `step` [s] is the time between actions; it is made of `substeps` equal steps of an `integrator`, by a `method`, as in `ct.stepper`.

    Four functions, traced and compiled, say the rest. Each names the arguments that it takes, of these: the time `t` [s] since the episode
    began, positions `q`, velocities `v`, the `action`, the `goal` of the episode, and the dictionary `parameters` of those numbers of the
    model that are drawn, by path.

    - `reset(random)` returns the first state of an episode, (q, v), or (q, v, goal) with a vector that the other functions have then;
      `random` has `uniform(low, high, size)` and `normal(mean, deviation, size)`. States of models with loops are put on the constraints,
      the nearest by kinetic energy, so that it is enough to be near.
    - `observe(...)` returns the observation, a vector.
    - `reward(...)` returns a number, at the end of a step.
    - `terminate(...)` returns a condition, or several of which one is enough; without the function, no state ends an episode.

    An action has an entry from -1 to 1 for each of the coordinates that are `actuated`: the part of the largest joint force there, which is
    held over the step. `efforts` are these forces [N m or N], one for all, in the order of the coordinates, or by name; those that are not
    given are the `effort` of the model's joints, as URDF files have it. Without `actuated`, all coordinates with such a limit are.
    With `actuators`, an action has an entry for each of `m.actuators` instead: from -1 to 1 it goes through the `control_limits`.

    After `max_episode_steps` an episode is truncated. `parameters` names numbers of the model that are drawn for each episode, by the paths
    of `m.parameters`: a pair (lowest, highest) for uniform ones, or a function of `random`. Observations are clipped to
    `observation_limits`, a pair (lowest, highest). `show(...)` returns points (n, 3) that frames mark, such as the goal; it is not traced.
    `space`, the lowest and the highest corner [m], is what frames have in view; without it, where random actions lead.

    >>> m = examples.cart_pole()
    >>> task = ct.environments.Task(
    ...     m, step=0.02, efforts={"cart": 10.0},
    ...     reset=lambda random: (random.uniform(-0.05, 0.05, 2), random.uniform(-0.05, 0.05, 2)),
    ...     observe=lambda q, v: np.concatenate([q, v]),
    ...     reward=lambda action: 1.0 - 0.01 * action[0] ** 2,
    ...     terminate=lambda q: (abs(q[0]) > 2.4) | (abs(q[1]) > 0.2),
    ...     max_episode_steps=500, parameters={"pole.mass": (0.05, 0.2)},
    ... )
    >>> task
    <Task 'cart-pole': actions cart, 4 observations, steps of 0.02 s, 500 in an episode, random pole.mass>
    """

    def __init__(
        self,
        m: Mechanism,
        *,
        step: float,
        reset: Function,
        observe: Function,
        reward: Function,
        terminate: Function | None = None,
        actuated: Sequence[str] | None = None,
        efforts: float | Sequence[float] | Mapping[str, float] | None = None,
        actuators: bool = False,
        substeps: int = 1,
        integrator: str = "auto",
        method: str = "auto",
        max_episode_steps: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        observation_limits: tuple[Any, Any] | None = None,
        show: Function | None = None,
        space: tuple[Any, Any] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "m")}
        self._given: dict[str, Any] = given
        self.parameters = dict(by_name("task: parameters", parameters, "give a mapping by path, such as {'pole.mass': (0.1, 0.2)}"))
        self.model = moving(m, "task").varying(tuple(self.parameters), "task")
        self.step = positive("task: step", step, "give the time between actions, in seconds")
        self.reset, self.observe, self.reward, self.terminate, self.show = reset, observe, reward, terminate, show
        self.inputs = self.model.v_names
        if actuators:
            if actuated is not None or efforts is not None:
                raise ArgumentError("task: actuators and actuated or efforts are given; give one of them, actuators have their limits")
            self.inputs = tuple(one.name for one in self.model.actuators)
            self.actuated, self.rest, self.efforts = _controls(self.model)
        else:
            self.actuated, self.efforts = _motors(self.model, actuated, efforts)
            self.rest = np.zeros(len(self.actuated))
        limit, remedy = max_episode_steps, "give a whole number, 1 or more, or None"
        self.max_episode_steps = None if limit is None else arguments.count("task: max_episode_steps", limit, remedy)
        self._move = stepper(self.model, step, integrator, substeps, method, parameters=tuple(self.parameters), controls=actuators)
        self._check_parameters()
        self._sizes = self._shapes()
        self._check_repeated()
        self.observation_limits = self._limits(observation_limits)
        self.space = _space(space)

    def __repr__(self) -> str:
        names, limit = ", ".join(self.names), f", {self.max_episode_steps:,} in an episode" if self.max_episode_steps else ""
        drawn = f", random {', '.join(self.parameters)}" if self.parameters else ""
        return f"<Task {self.model.name!r}: actions {names}, {self.observations} observations, steps of {self.step:g} s{limit}{drawn}>"

    def __reduce__(self) -> tuple:
        return _made, (self.model.varying((), "task"), self._given)

    def with_options(self, **options: Any) -> Task:
        """Return the task with other arguments.

        >>> task = ct.environments.cart_pole()
        >>> task.with_options(parameters={"pole.mass": (0.05, 0.2)}, max_episode_steps=200)
        <Task 'cart-pole': actions cart, 4 observations, steps of 0.02 s, 200 in an episode, random pole.mass>
        """
        for name in options.keys() - self._given.keys():
            raise ArgumentError(f"task: there is no option {name!r}; choose from {', '.join(self._given)}")
        return _made(self.model.varying((), "task"), {**self._given, **options})

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates that are actuated, or of the actuators, in the order of actions."""
        return tuple(self.inputs[i] for i in self.actuated)

    @property
    def observations(self) -> int:
        """Number of entries of an observation."""
        return self._sizes["observation"][0]

    @property
    def goals(self) -> int:
        """Number of entries of the goal, 0 where there is none."""
        return self._sizes["goal"][0]

    @property
    def draws(self) -> int:
        """How many uniform random numbers begin an episode."""
        return self._sizes["random"][0]

    # compiled

    def move(self, t: Array, q: Array, v: Array, inputs: Array, given: Sequence[Array], out: tuple[Array, Array] | None = None) -> Any:
        """Return the states after a step of joint forces, or of controls; NaN where a step fails."""
        return self._move(*((t,) if self.model.time_dependent else ()), q, v, inputs, *given, out=out)

    def begin(self, random: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[np.ndarray]]:
        """Return first states, goals and numbers of the model, for uniform random numbers (N, draws)."""
        q, v, goal, *given = self._first(random)
        m = self.model
        for name, x in (("q", q), ("v", v), ("goal", goal), *zip(m.varied, given, strict=True)):
            if not np.isfinite(x).all():
                raise ArgumentError(f"reset: {name} is not finite; return finite numbers whatever the random numbers are")
        q = m.normalised(q) if m.quaternions() else q
        if m.has_loops:
            q, v = on_constraints(m, np.zeros(len(q)), q, v, self._rank, given)
            check_closed(m, 0.0, q, (len(q),), "reset: q", "return positions nearer to those that m.assemble gives", given)
        return q, v, goal, given

    @cached_property
    def look(self) -> Kernel:
        """The kernel (t, q, v, action, goal, parameters) -> observation, reward, what ends the episode."""
        trace = Trace("environment")
        state = {name: trace.input(name, shape) for name, shape in self._arguments().items()}
        given = self._given_inputs(trace)
        observation = self._observed(state, given)
        if self.observation_limits is not None:
            observation = np.clip(traced_array(observation), *self.observation_limits)
        value = self._called("reward", self.reward, state, given)[()]
        ends = False
        for condition in np.ravel(np.asarray(() if self.terminate is None else self._called("terminate", self.terminate, state, given))):
            if not isinstance(condition, (Condition, bool, np.bool_)):
                raise ArgumentError(f"terminate returned {short(condition)}; return a condition, such as q[0] > 1.0, or several")
            ends = condition | ends
        size = sum(abs(x) for x in (*state["q"], *state["v"], *np.ravel(observation), value))
        finite = size < np.inf if not isinstance(size, (int, float)) else True  # a comparison with what is not a number is False
        ended = where(finite, where(ends, float(TERMINATED), 0.0), float(FAILED))
        return compile_graph(trace.graph(observation=observation, reward=value, ended=ended))

    def marks(self, now: Situation) -> np.ndarray:
        """Return the points that a frame marks: (n, 3)."""
        if self.show is None:
            return np.zeros((0, 3))
        state = {"t": now.t, "q": now.q, "v": now.v, "goal": now.goal}
        return np.asarray(self._called("show", self.show, state, now.parameters), dtype=float).reshape(-1, 3)

    @cached_property
    def _first(self) -> Kernel:
        trace = Trace("reset")
        entries = iter(np.ravel(trace.input("random", self._sizes["random"])))
        q, v, goal, given = self._begun(Draws(lambda: next(entries)))
        return compile_graph(trace.graph(q=q, v=v, goal=goal, **{entry_of(path): x for path, x in given.items()}))

    @cached_property
    def _rank(self) -> int:
        return self.model.nv - mobility(self.model).freedom

    # checked

    def _arguments(self) -> dict[str, tuple[int, ...]]:
        sizes = {"t": (), "q": (self.model.nq,), "v": (self.model.nv,), "action": (len(self.actuated),)}
        return {**sizes, "goal": self._sizes["goal"]}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of random numbers, goal and observation, which the functions say themselves."""
        trace, drawn = Trace("reset"), count()
        _, _, goal, _ = self._begun(Draws(lambda: trace.input(f"random {next(drawn)}")))
        self._sizes = {"random": (next(drawn),), "goal": goal.shape}
        trace = Trace("observe")
        state = {name: trace.input(name, shape) for name, shape in self._arguments().items()}
        return {**self._sizes, "observation": self._observed(state, self._given_inputs(trace)).shape}

    def _given_inputs(self, trace: Trace) -> dict[str, Any]:
        return self.model.given_inputs(trace, entry_of)

    def _begun(self, random: Draws) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return a first state, a goal, and numbers of the model by path, of any scalar."""
        m, given = self.model, {}
        for path, how in self.parameters.items():
            shape = m.parameters()[path].shape
            value = self._called(path, how, {"random": random}, given) if callable(how) else random.uniform(*how, size=shape)
            if np.shape(value) != shape:
                raise ArgumentError(f"parameters: the function of {path} returned shape {np.shape(value)}; return {shape}")
            given[path] = value
        result = self._called("reset", self.reset, {"random": random}, given)
        if not isinstance(result, tuple) or len(result) not in (2, 3):
            raise ArgumentError(f"reset returned {type(result).__name__}; return a tuple (q, v), or (q, v, goal)")
        q, v, goal = (np.asarray(x, dtype=object) for x in (*result, *(() if result[2:] else (np.zeros(0),))))
        for name, x, size in (("q", q, m.nq), ("v", v, m.nv)):
            if x.shape != (size,):
                raise ArgumentError(f"reset returned {name} of shape {x.shape}; model '{m.name}' has ({size},)")
        if goal.ndim != 1:
            raise ArgumentError(f"reset returned a goal of shape {goal.shape}; return a vector")
        return q, v, goal, given

    def _observed(self, state: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        observation = self._called("observe", self.observe, state, given).astype(object)
        if observation.ndim != 1 or not observation.size:
            raise ArgumentError(f"observe returned an array of shape {observation.shape}; return a vector, such as np.concatenate([q, v])")
        return observation

    def _called(self, what: str, function: Function, state: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
        """Return the result of a function of the user's, which has the arguments that it names."""
        known = {**state, "parameters": dict(given)}
        chosen = {name: own_array(x) if isinstance(x, np.ndarray) else x for name, x in _named(what, function, known)}
        own = {**self.model.parts.own, **{path: x for path, x in given.items() if path in self.model.parts.own}}
        role = _role(what, {name: len(x) if np.ndim(x) == 1 else None for name, x in chosen.items()})
        with expression.values(own):
            if what in ("observe", "reward"):
                return role.value(function, **chosen)
            with role.explained(function, traced=what != "show"):
                return expression.settled(function(**chosen))

    def _check_repeated(self) -> None:
        """Refuse functions that are others when they are traced again."""
        drawing = {path: how for path, how in self.parameters.items() if callable(how)}
        functions = {**drawing, "reset": self.reset, "observe": self.observe, "reward": self.reward, "terminate": self.terminate}
        for what, function in functions.items():
            if function is not None:
                begins = what in drawing or what == "reset"
                _role(what, {}, begins).repeated(function, partial(self._graph, what, function, begins))

    def _graph(self, what: str, function: Function, begins: bool) -> Graph:
        trace, drawn = Trace(what), count()
        state = {name: trace.input(name, shape) for name, shape in self._arguments().items()}
        if begins:
            state = {"random": Draws(lambda: trace.input(f"random {next(drawn)}"))}
        return trace.graph(value=list(_entries(self._called(what, function, state, self._given_inputs(trace)))))

    def _check_parameters(self) -> None:
        m = self.model
        for path, how in self.parameters.items():
            if callable(how):
                continue
            if not isinstance(how, (tuple, list)) or len(how) != 2:
                raise ArgumentError(f"parameters: {path} is {how!r}; give a pair (lowest, highest), or a function of `random`")
            shape = m.parameters()[path].shape
            low, high = (np.broadcast_to(floats(f"parameters: {path}", end, "give numbers"), shape) for end in how)
            for end in (low, high):
                given_values(m, {path: end}, "parameters")
            if (low > high).any():
                raise ArgumentError(f"parameters: {path} goes from {how[0]} to {how[1]}; give the smaller number first")

    def _limits(self, limits: Any) -> tuple[np.ndarray, np.ndarray] | None:
        if limits is None:
            return None
        size = self._sizes["observation"]
        remedy = f"give a pair (lowest, highest), of numbers or of {size[0]} numbers each"
        try:
            low, high = (np.broadcast_to(floats("observation_limits", end, remedy), size).copy() for end in limits)
        except (TypeError, ValueError):
            raise ArgumentError(f"observation_limits {limits!r} do not fit observations of shape {size}; {remedy}") from None
        if not (low < high).all():
            raise ArgumentError(f"observation_limits: lowest {limits[0]} is not below highest {limits[1]}; {remedy}")
        return low, high


def _made(m: Mechanism, given: Mapping[str, Any]) -> Task:
    return Task(m, **given)


def _named(what: str, function: Function, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that a function names."""
    if not callable(function):
        raise ArgumentError(f"{what} {function!r} is not a function; give a function of {', '.join(known)}, or some of them")
    for name, parameter in inspect.signature(function).parameters.items():
        if name in known:
            yield name, known[name]
        elif parameter.default is inspect.Parameter.empty:
            raise ArgumentError(f"{what} takes an argument {name!r}; choose from {', '.join(known)}")


def _role(what: str, sizes: Mapping[str, int | None], begins: bool = False) -> Role:
    """Return what a function of a task is to be; some begin an episode."""
    returns, shapes = _RETURNS.get(what, ("a number", None))
    how = "draw random numbers from the generator that the function is given, such as random.uniform(-1.0, 1.0)"
    return Role(what, sizes, returns, shapes, marked=False, chance=how if begins else "draw random numbers in reset, as part of the goal")


def _entries(x: Any) -> Iterator[Any]:
    """Yield the numbers that a function of a task returned, alone, in arrays or in tuples; conditions as 1 or 0."""
    if isinstance(x, (tuple, list, np.ndarray)):
        for part in x.flat if isinstance(x, np.ndarray) else x:
            yield from _entries(part)
    else:
        yield where(x, 1.0, 0.0) if isinstance(x, (Condition, bool, np.bool_)) else x


def _motors(m: Mechanism, actuated: Any, efforts: Any) -> tuple[tuple[int, ...], np.ndarray]:
    """Return the numbers of the actuated velocity coordinates, and their largest joint forces."""
    most = np.full(m.nv, np.inf)
    for link, _, at in m.slices():
        most[at] = link.joint.most_effort
    if isinstance(efforts, Mapping):
        for at, (name, effort) in zip(coordinates(m, tuple(efforts), "task: efforts"), efforts.items(), strict=True):
            most[at] = positive(f"task: efforts[{name!r}]", effort, "give the largest joint force, in N m or N")
    limited = range(m.nv) if efforts is not None and not isinstance(efforts, Mapping) else np.flatnonzero(np.isfinite(most)).tolist()
    chosen = list(limited if actuated is None else coordinates(m, actuated, "task: actuated"))
    if efforts is not None and not isinstance(efforts, Mapping):
        given = floats("task: efforts", efforts, "give the largest joint forces, in N m or N")
        if given.shape not in ((), (len(chosen),)) or not (np.isfinite(given) & (given > 0.0)).all():
            raise ArgumentError(f"task: efforts {efforts!r} do not fit; give a number above 0, or {len(chosen)} of them, or some by name")
        most[chosen] = given
    if not chosen or not np.isfinite(most[chosen]).all():
        without = [name for name, effort in zip(m.v_names, most, strict=True) if not np.isfinite(effort)]
        raise ArgumentError(
            f"task: model '{m.name}' has no effort limit of {', '.join(without)}, and so none of actions; give effort= to the joint, or to "
            f"the task efforts={{{without[0]!r}: …}} [N m or N]"
        )
    if len({*chosen}) != len(chosen):
        raise ArgumentError(f"task: actuated {actuated!r} names a coordinate twice; name each once")
    return tuple(chosen), most[chosen]


def _controls(m: Mechanism) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """Return the numbers of the actuators, and the middles and halves of the ranges of their controls."""
    ranges = []
    for one in Actuation.of(m, "task").actuators:
        if one.control_limits is None:
            raise ArgumentError(f"task: actuator '{one.name}' has no control_limits, and so none of actions; give them in m.add_actuator")
        ranges.append(one.control_limits)
    low, high = np.transpose(ranges)
    return tuple(range(len(ranges))), (low + high) / 2.0, (high - low) / 2.0


def _space(space: Any) -> tuple[np.ndarray, np.ndarray] | None:
    if space is None:
        return None
    corners = floats("task: space", space, "give the lowest and the highest corner")
    if corners.shape != (2, 3) or not (corners[0] < corners[1]).all():
        raise ArgumentError(f"task: space {space!r} is not a space; give its lowest and its highest corner, (x, y, z) each")
    return corners[0], corners[1]
