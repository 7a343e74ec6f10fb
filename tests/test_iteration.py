"""Loops in machine code against the same function called from Python."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import catena as ct
from catena.graph import Trace, where
from catena.native import Iteration
from catena.native.llvm import machine
from catena.simulation.run import Run, RunSettings
from catena.simulation.stepping import Layout, run_in_python

pytestmark = pytest.mark.quick

DONE, ROW, TABLE, COUNT, ODD, X, Y = range(7)


def turning(state, row, constants):
    """Turn (x, y) by an angle from the table, row after row, and shift it; record every second turn; stop after so many."""
    count = state[COUNT] + 1.0
    c, s = np.cos(row[0]), np.sin(row[0])
    x, y = c * state[X] - s * state[Y], s * state[X] + c * state[Y] + row[1]
    done = where(count >= constants[0], 1.0, 0.0)
    new = [done, state[ROW] + 1.0 - state[ODD], state[TABLE] + 1.0, count, 1.0 - state[ODD], x, y]
    return np.array(new, dtype=object), np.array([count, state[X], state[Y]], dtype=object)


@pytest.fixture(scope="module")
def compiled():
    trace = Trace("turning")
    state, row, constants = trace.input("state", (7,)), trace.input("row", (2,)), trace.input("constants", (1,))
    new, record = turning(state, row, constants)
    return Iteration(trace.graph(state=new, record=record))


def inputs(trajectories, limit=37.0, rows=5, seed=0):
    rng = np.random.default_rng(seed)
    state = np.zeros((trajectories, 7))
    state[:, X:] = rng.normal(size=(trajectories, 2))
    table = rng.normal(size=(trajectories, rows, 2))
    return state, table, np.full((trajectories, 1), limit), np.full((trajectories, 30, 3), np.nan)


def in_python(state, table, constants, record, iterations):
    """Return what the loop in machine code must give, trajectory by trajectory."""
    state, record = state.copy(), record.copy()
    for i in range(len(state)):
        at = slice(i, i + 1)
        shared_table, shared = (part if len(part) == 1 else part[at] for part in (table, constants))
        run_in_python(turning, state[at], shared_table, shared, record[at], iterations)
    return state, record


@pytest.mark.parametrize("trajectories", [1, 2, 3, 4, 5, 8, 9, 17, 33])
def test_machine_code_leaves_the_records_and_states_of_python(trajectories, compiled):
    state, table, constants, record = inputs(trajectories)
    expected_state, expected_record = in_python(state, table, constants, record, 1000)
    compiled.run(state, table, constants, record, 1000)
    assert_allclose(state, expected_state, rtol=1e-13, atol=1e-13)
    assert_allclose(record, expected_record, rtol=1e-13, atol=1e-13)  # NaN where nothing was written
    assert (state[:, DONE] == 1.0).all()
    assert (state[:, COUNT] == 37.0).all()
    assert (state[:, ROW] == 19.0).all()


def test_trajectories_do_not_know_of_each_other(compiled):
    """Each ends by itself, and its bits are those that it has alone."""
    state, table, constants, record = inputs(13)
    constants[:, 0] = np.arange(1.0, 14.0)
    start = state.copy()
    compiled.run(state, table, constants, record, 1000)
    assert_array_equal(state[:, COUNT], np.arange(1.0, 14.0))
    for i in range(13):
        alone_state, alone_record = start[i : i + 1].copy(), np.full((1, 30, 3), np.nan)
        compiled.run(alone_state, table[i : i + 1], constants[i : i + 1], alone_record, 1000)
        assert_array_equal(alone_state[0], state[i])
        assert_array_equal(alone_record[0], record[i])


def test_trajectories_whose_memories_are_large_run_one_group_at_a_time(compiled, monkeypatch):
    monkeypatch.setattr(machine, "TOGETHER", 0)
    in_turn = Iteration(compiled.graph)
    assert in_turn.together == in_turn.lanes < compiled.together
    together, one = inputs(33), inputs(33)
    for iteration, (state, table, constants, record) in ((compiled, together), (in_turn, one)):
        iteration.run(state, table, constants, record, 1000)
    for a, b in zip(together, one, strict=True):
        assert_array_equal(a, b)


def test_what_is_not_a_number_in_one_stays_in_it(compiled):
    state, table, constants, record = inputs(8)
    expected = in_python(state, table, constants, record, 1000)
    state[3, X:], table[5] = np.nan, np.inf
    compiled.run(state, table, constants, record, 1000)
    others = [i for i in range(8) if i not in (3, 5)]
    assert_allclose(state[others], expected[0][others], rtol=1e-13, atol=1e-13)
    assert np.isnan(state[3, X:]).all()
    assert (state[:, COUNT] == 37.0).all()


def test_one_table_and_one_set_of_constants_serve_all(compiled):
    state, table, constants, record = inputs(6)
    expected = in_python(state, table[:1], constants[:1], record, 1000)
    compiled.run(state, table[:1], constants[:1], record, 1000)
    assert_allclose(state, expected[0], rtol=1e-13, atol=1e-13)
    assert_allclose(record, expected[1], rtol=1e-13, atol=1e-13)


def test_last_row_of_the_table_holds_on(compiled):
    state, table, constants, record = inputs(2, rows=3)
    longer = np.concatenate([table, np.repeat(table[:, -1:], 40, axis=1)], axis=1)
    again, again_record = state.copy(), record.copy()
    compiled.run(state, table, constants, record, 1000)
    compiled.run(again, longer, constants, again_record, 1000)
    assert_array_equal(state, again)
    assert_array_equal(record, again_record)


@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_loop_that_is_cut_goes_on_to_the_same_bits(chunk, compiled):
    state, table, constants, record = inputs(5)
    again, again_record = state.copy(), record.copy()
    compiled.run(state, table, constants, record, 1000)
    for _ in range(-(-37 // chunk)):
        compiled.run(again, table, constants, again_record, chunk)
    assert_array_equal(again, state)
    assert_array_equal(again_record, record)


def test_full_buffer_stops_and_an_empty_one_goes_on(compiled):
    state, table, constants, record = inputs(5)
    again = state.copy()
    compiled.run(state, table, constants, record, 1000)
    small, parts = np.empty((5, 4, 3)), []
    for _ in range(10):
        compiled.run(again, table, constants, small, 1000)
        rows = again[:, ROW].astype(int)
        assert (rows == rows[0]).all()
        assert rows[0] <= 4
        parts.append(small[:, : rows[0]].copy())
        again[:, ROW] = 0.0
        if (again[:, DONE] == 1.0).all():
            break
    assert_array_equal(np.concatenate(parts, axis=1), record[:, :19])
    assert_array_equal(again[:, COUNT:], state[:, COUNT:])


def test_nothing_to_do_changes_nothing(compiled):
    state, table, constants, record = inputs(3)
    before = state.copy()
    compiled.run(state, table, constants, record, 0)
    assert_array_equal(state, before)
    state[:, DONE] = 2.0
    before = state.copy()
    compiled.run(state, table, constants, record, 10)
    assert_array_equal(state, before)
    assert np.isnan(record).all()


@pytest.mark.parametrize(
    "change",
    [
        {"state": np.zeros((5, 6))},
        {"state": np.zeros((5, 7), dtype=np.float32)},
        {"state": np.zeros((5, 14))[:, ::2]},
        {"table": np.zeros((3, 5, 2))},
        {"table": np.zeros((5, 2))},
        {"constants": np.zeros((5, 2))},
        {"record": np.zeros((1, 30, 3))},
        {"record": np.zeros((5, 30, 2))},
    ],
    ids=str,
)
def test_arrays_that_do_not_fit_are_refused(change, compiled):
    given = dict(zip(("state", "table", "constants", "record"), inputs(5), strict=True)) | change
    with pytest.raises(ct.CompileError, match="iteration 'turning'"):
        compiled.run(*given.values(), 10)


def test_layout_names_the_entries_of_a_vector():
    layout = Layout(("t",), {"q": 3, "v": 2})
    assert layout.size == 6
    parts = layout.split(np.arange(6.0))
    assert parts["t"] == 0.0
    assert_array_equal(parts["q"], [1.0, 2.0, 3.0])
    assert_array_equal(layout.join(parts).astype(float), np.arange(6.0))


HOW = {
    "fixed": {"step": 0.05, "integrator": "rk4"},
    "adaptive": {"step": None, "integrator": "dormand-prince"},
    "order 8": {"step": None, "integrator": "dop853"},
    "implicit": {"step": 0.1, "integrator": "implicit-midpoint"},
    "Euler": {"step": 0.01, "integrator": "semi-implicit-euler"},
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_attempts_at_steps_are_the_same_in_machine_code_and_in_python(how):
    """With a table of forces and an event, record by record and state by state."""
    m = ct.Model("crane")
    m.add("cart", ct.point_mass(2.0), ct.Prismatic("x", damping=0.3))
    m.add("load", ct.Body(1.0, com=(0, 0, -1), inertia=np.diag([0.1, 0.2, 0.3])), ct.Spherical(), parent="cart")
    tau = (np.array([0.0, 0.33, 1.0]), np.array([[1.0, 0, 0, 0], [-2.0, 0.1, 0, 0], [0.0, 0, 0, 0.2]]))
    event = ct.Event("fast", lambda t, q, v: v[2] - 0.4, "record")
    runs = []
    for _ in range(2):
        v = [0.0, 1.0, 0.5, -0.2]
        settings = (m, m.neutral(), v, 0.0, 1.0, how["step"], "auto", how["integrator"], tau, None, [event], 2, 1e-6, None, None)
        run = Run(RunSettings.of(*settings))
        run.begin()
        runs.append(run)
    buffers = np.full((2, 1, 200, run.system.stepping.record.size), np.nan)
    compiled, called = runs[0].system.iteration(), runs[1].system.python_attempt()
    for _ in range(3):  # until the event, or the end
        compiled.run(runs[0].state, runs[0].table, runs[0].constants, buffers[0], 20)
        run_in_python(called, runs[1].state, runs[1].table, runs[1].constants, buffers[1], 20)
        for run in runs:
            run.state[0, 0] = 0.0 if run.time < 1.0 else 1.0
    exact = [name for name in runs[0].at if name in ("done", "row", "table", "count", "since", "steps", "rejected")]
    assert runs[0].get("steps")[0] > 5
    for name in exact:
        assert_array_equal(runs[0].get(name), runs[1].get(name), err_msg=name)
    # adaptive steps end a little earlier or later, by what rounding does to an error estimate
    tolerance = 1e-12 if how["step"] else 1e-6
    assert_allclose(runs[0].state, runs[1].state, rtol=tolerance, atol=tolerance)
    assert_allclose(buffers[0], buffers[1], rtol=tolerance, atol=tolerance)
