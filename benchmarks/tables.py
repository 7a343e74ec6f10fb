"""The tables of the documentation, as lines of Markdown, from the figures of a file of results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import results
from results import Row, number, ratio


class Results:
    """The figures of a file, as tables ask for them."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def entry(self, name: str) -> dict[str, Any]:
        """Return a benchmark, which must have been measured."""
        found = self.facts["benchmarks"].get(name)
        if found is None:
            raise SystemExit(f"{results.RESULTS.name} has no benchmark {name}; run python benchmarks/all.py --only {name}")
        if "failed" in found and not found["rows"]:
            raise SystemExit(f"benchmark {name} failed, and gives no table: {found['failed']}")
        return found

    def rows(self, name: str, what: str = "") -> list[Row]:
        """Return the rows of a benchmark whose `what` matches an expression."""
        return [row for row in self.entry(name)["rows"] if re.fullmatch(what or ".*", row["what"])]

    def row(self, name: str, model: str, what: str) -> Row:
        """Return one row of a benchmark."""
        return next(row for row in self.entry(name)["rows"] if (row["model"], row["what"]) == (model, what))

    def models(self, name: str, what: str) -> list[str]:
        """Return the models of a benchmark that have such a row."""
        return [row["model"] for row in self.rows(name, re.escape(what))]

    def measured(self, name: str) -> str:
        """Return commit and date of a benchmark, with what must be known of it."""
        found = self.entry(name)
        remarks = ["with changes on top of it"] * (not found["clean"]) + ["a quick run"] * found["quick"]
        remarks += [found["note"]] if "note" in found else []
        remarks += ["with an error at its end"] if "failed" in found else []
        for facts in ("machine", "versions"):
            own, head = found.get(facts, {}), self.facts["head"][facts]
            remarks += [f"{key} {value}" for key, value in own.items() if head.get(key) != value]
        return f"Commit {found['commit']}, {found['date'].split()[0]}" + (f" ({', '.join(remarks)})" if remarks else "")

    def source(self, name: str, script: str) -> list[str]:
        """Return the lines below a table: commit, date, and how to repeat it."""
        return ["", f"{self.measured(name)}; `python benchmarks/{script}` measures it."]


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = (titles, *rows)
    texts = [f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in cells)}|" for cells in lines]
    return [texts[0], f"|{'---|' * len(titles)}", *texts[1:]]


def seconds(us: float) -> str:
    """Return a time in seconds, with two digits."""
    return f"{us * 1e-6:#.2g} s".replace(". s", " s")


def small(x: float, digits: int = 1) -> str:
    """Return the size of a rounding error or the like, with one digit or two."""
    return f"{x:.{digits - 1}e}".replace("e-0", "e-").replace("e+00", "")


def rate(us: float) -> str:
    """Return how many times a second something is done, with three digits."""
    return number(1e6 / us)


def issue_share(row: Row) -> str:
    """Return what a kernel issues of the processor's limit."""
    return f"{100 * row['figures']['issue_share']:.0f} %"


def beside(row: Row, *peers: str) -> list[str]:
    """Return cells: the time of catena, and that of each peer with its ratio; without names all peers."""
    theirs = [(row["peers"][peer], row["ratios"][peer]) for peer in peers or row["peers"]]
    return [number(row["catena"]), *(cell for time, times in theirs for cell in (number(time), ratio(times)))]


# the tables


def head(of: Results) -> list[str]:
    facts = of.facts["head"]
    machine, versions, builds = facts["machine"], facts["versions"], facts["builds"]
    cores = f"{machine['processor']} ({machine['compiled_for']}), vectors of {machine['lanes']} numbers, {machine['cores']} cores"
    rows = [("processor", cores), ("system", machine["system"]), ("Python", versions["python"])]
    rows += [(name, f"{versions[name]}{', ' + builds[name] if name in builds else ''}") for name in versions if name != "python"]
    return table(("", ""), rows)


def dynamics(of: Results) -> list[str]:
    titles = (
        "bodies", "catena, batch", "Pinocchio, batch", "ratio", "catena, one call", "`pin.aba`", "ratio", "trace and compile, first time",
        "from the cache", "of the vector-issue limit",
    )  # fmt: skip
    rows = []
    for model in (name for name in of.models("dynamics", "forward dynamics, batch") if name.startswith("chain")):
        batch, one = (of.row("dynamics", model, f"forward dynamics, {how}") for how in ("batch", "one call"))
        made = [of.row("dynamics", model, f"trace and compile, {when}") for when in ("first time", "from the cache")]
        cells = [
            cell for row, none in ((batch, "out of memory"), (one, ""))
            for cell in (beside(row) if "peers" in row else (number(row["catena"]), none, ""))
        ]  # fmt: skip
        rows.append((f"{int(model.split()[-1]):,}", *cells, *(seconds(row["catena"]) for row in made), issue_share(batch)))
    return table(titles, rows) + of.source("dynamics", "dynamics.py")


def dynamics_others(of: Results) -> list[str]:
    kinds = ("inverse dynamics, batch", "mass matrix, 64 states", "mass matrix, 2000 states")
    models = of.models("dynamics", kinds[0])
    rows = [(model, *(cell for what in kinds for cell in beside(of.row("dynamics", model, what)))) for model in models]
    matrices = (cell for states in ("mass matrix, 64 states", "2,000 states") for cell in (states, "`crba`", "ratio"))
    titles = ("", "inverse dynamics", "`rneaInParallel`", "ratio", *matrices)
    return table(titles, rows)


def scale(of: Results) -> list[str]:
    rows, times = [], {}
    for row in of.rows("scale", "forward dynamics, batch"):
        kind, _, size = row["model"].partition(" of ")
        times.setdefault(kind, []).append((int(size), row["catena"]))
        figures = row["figures"]
        cells = (number(row["catena"]), f"{figures['made_seconds']:.2f} s", f"{figures['memory_MB']:,} MB", number(figures["operations"]))
        rows.append((f"{kind} of {int(size):,}", *cells))
    for kind, found in times.items():
        for part in (found[:-1], found):
            sizes, us = np.log(part).T
            rows.append((f"{kind}s, up to {part[-1][0]:,}", f"n^{np.polyfit(sizes, us, 1)[0]:.2f}", "", "", ""))
    return table(("", "µs a state", "made in", "memory", "operations"), rows) + of.source("scale", "scale.py")


def cores(of: Results) -> list[str]:
    rows = []
    for row in of.rows("cores"):
        figures = row.get("figures", {})
        if row["model"] == "memory":
            rate = f"{figures['GB_per_s_one_thread']:.0f} GB/s by one thread, {figures['GB_per_s_all_cores']:.0f} by all"
            rows.append(("a copy in memory", rate, ""))
            continue
        speedup = f"{figures['speedup']:.2f}" if "speedup" in figures else ""
        needs = f", {figures['needs_GB_per_s']:.1f} GB/s" if "needs_GB_per_s" in figures else ""
        rows.append((row["what"], f"{number(row['catena'])}{needs}" if "catena" in row else "", speedup))
    return table(("arm, or a chain", "µs a state or step", "times as fast as one"), rows) + of.source("cores", "cores.py")


def dynamics_arm(of: Results) -> list[str]:
    one = [number(of.row("dynamics", "arm", f"{what} dynamics, one call")["catena"]) for what in ("forward", "inverse")]
    batch, two = (of.row("dynamics", "arm", f"forward dynamics, batch{threads}") for threads in ("", ", two threads"))
    states, speedup = batch["figures"]["states"], two["figures"]["speedup"]
    rows = [
        ("forward dynamics, one call", one[0]), ("inverse dynamics, one call", one[1]),
        (f"forward dynamics, a batch of {states:,}", f"{number(batch['catena'])}, {issue_share(batch)} of the vector-issue limit"),
        ("the same with `ct.threads(2)`", f"{number(two['catena'])}, {speedup:.2f} times as fast"),
    ]  # fmt: skip
    return table(("arm of the examples", "µs a state"), rows)


def kinematics(of: Results) -> list[str]:
    names = {
        "frame_velocity": "`ct.frame_velocity`", "frame_acceleration": "`ct.frame_acceleration`", "jacobian": "`ct.jacobian`",
        "center_of_mass": "`ct.center_of_mass`", "its jacobian": "its Jacobian", "centroidal_momentum": "`ct.centroidal_momentum`",
        "its rate": "its rate", "its matrix": "its matrix",
    }  # fmt: skip
    models = of.models("kinematics", "frame_velocity")
    rows = [(names[what], *(cell for model in models for cell in beside(of.row("kinematics", model, what)))) for what in names]
    titles = ("kernel", *(cell for model in models for cell in (model, "Pinocchio", "ratio")))
    return table(titles, rows) + of.source("kinematics", "kinematics.py")


def inverse_kinematics(of: Results) -> list[str]:
    rows = []
    for row in of.rows("kinematics", "inverse kinematics"):
        figures = row["figures"]
        solved = f"{figures['solved_catena']:,} of {figures['poses_catena']:,}"
        peers = beside(row)[1:] if "peers" in row else [""] * 4
        rows.append((row["model"], number(row["catena"]), solved, *peers, small(figures["loop_error"]) if "loop_error" in figures else ""))
    return table(("poses of", "catena", "solved", "Pinocchio", "ratio", "MuJoCo", "ratio", "largest loop error"), rows)


def simulation(of: Results) -> list[str]:
    rows, trajectories = [], of.rows("simulation", "a step of RK4, many trajectories")[0]["figures"]["trajectories"]
    for model in of.models("simulation", "a step of RK4, one trajectory"):
        one, many = (of.row("simulation", model, f"a step of RK4, {how}") for how in ("one trajectory", "many trajectories"))
        two = of.row("simulation", model, "a step of RK4, many trajectories, two threads")
        spread = max(one["figures"]["spread_MuJoCo"], one["figures"]["spread_Pinocchio"])
        rows.append((model, *beside(one), *beside(many), f"{two['figures']['speedup']:.2f} times as fast", small(spread)))
    titles = (
        "mechanism", "catena, one trajectory", "MuJoCo", "ratio", "Pinocchio loop", "ratio",
        f"catena, {trajectories:,} trajectories", "MuJoCo", "ratio", "two threads", "positions differ by",
    )  # fmt: skip
    return table(titles, rows) + of.source("simulation", "simulation.py")


def operations(of: Results) -> list[str]:
    accelerations, rates = "accelerations", "velocities and rates of momenta"
    listed = [(f"{name}, published", name, accelerations) for name in ("Featherstone", "Vukobratović", "Valášek", "Rein")]
    listed += [
        ("articulated-body", "catena, `articulated-body`", accelerations),
        ("articulated-body, no gravity", "the same without gravity", accelerations),
        ("Naudet-Lefeber (momenta), published", "Naudet-Lefeber", rates),
        ("canonical-momenta (momenta)", "catena, `canonical-momenta`", rates),
        ("canonical-momenta (momenta), no gravity", "the same without gravity", rates),
        ("newton-euler (inverse dynamics)", "catena, `newton-euler`", "joint forces"),
    ]
    rows = []
    for what, title, result in listed:
        figures = of.row("operations", "chain of n", what)["figures"]
        rows.append((title, result, *(figures[name] for name in ("additions", "multiplications", "total"))))
    return table(("algorithm", "result", "additions", "multiplications", "total"), rows)


def momenta(of: Results) -> list[str]:
    rows = []
    for model in of.models("operations", "canonical-momenta"):
        one, other = (of.row("operations", model, name)["catena"] for name in ("articulated-body", "canonical-momenta"))
        rows.append((model, f"{number(one)} µs", f"{number(other)} µs", f"{other / one:.2f}"))
    return table(("model", "`articulated-body`", "`canonical-momenta`", "ratio"), rows) + of.source("operations", "operations.py")


def methods(of: Results) -> list[str]:
    grown = {row["what"].removeprefix("growth of "): row["figures"] for row in of.rows("methods", "growth of .*")}
    sizes = [int(name.split()[-1]) for name in of.models("methods", "articulated-body")]
    chosen = [n for n in sizes if n in (8, 64)] + [sizes[-1]] * (sizes[-1] > 64)
    rows = []
    for name in ("articulated-body", "innovations", "composite-body", "conjugate-gradient"):
        times = [f"{number(of.row('methods', f'chain of {n}', name)['catena'])} µs" for n in chosen]
        text = grown[name].get("operations", "depends on the iterations").replace("^2", "²").replace("^3", "³")
        rows.append((f"`{name}`", *times, f"n^{grown[name]['time_exponent']:.2f}", text))
    titles = ("method", *(f"{n} bodies" for n in chosen), "time grows as", "operations for n bodies")
    lines = table(titles, rows)
    for row in of.rows("methods", ".* is faster than .*"):
        first, second = row["what"].split(" is faster than ")
        lines += ["", f"`{first}` becomes faster than `{second}` at this number of bodies: {row['figures']['bodies']}."]
    return lines + of.source("methods", "methods.py")


def operators(of: Results) -> list[str]:
    grown = {row["what"].removeprefix("growth of "): row["figures"]["time_exponent"] for row in of.rows("operators", "growth of .*")}
    sizes = [int(name.split()[-1]) for name in of.models("operators", "mass")]
    chosen = [n for n in sizes if n in (8, 64, 512)]
    rows = []
    for name in grown:
        times = [f"{number(of.row('operators', f'chain of {n}', name)['catena'])} µs" for n in chosen]
        rows.append((f"`{name}`", *times, f"n^{grown[name]:.2f}"))
    return table(("product with", *(f"{n} links" for n in chosen), "grows as"), rows) + of.source("operators", "operators.py")


def loops(of: Results) -> list[str]:
    peers = "Pinocchio constraintDynamics", "Pinocchio lcaba"
    rows = []
    for what, title in (("forward dynamics", ""), ("inverse dynamics by denoc", ", inverse dynamics by `denoc`")):
        for model in of.models("loops", f"{what}, batch"):
            batch, one = (of.row("loops", model, f"{what}, {how}") for how in ("batch", "one call"))
            size = of.row("loops", model, "forward dynamics, batch")["figures"]
            loop = f"{size['loops']} loop{'s' if size['loops'] > 1 else ''}"
            calls = [number(time) for time in (one["catena"], *(one["peers"][peer] for peer in peers))]
            rows.append((f"{model}, {size['coordinates']} coordinates and {loop}{title}", *beside(batch, *peers), *calls))
    theirs = "`constraintDynamics`", "`lcaba`"
    titles = "mechanism", "catena, batch", theirs[0], "ratio", theirs[1], "ratio", "catena, one call", *theirs
    return table(titles, rows) + of.source("loops", "loops.py")


def loop_agreement(of: Results) -> list[str]:
    rows = []
    for row in of.rows("loops", "forward dynamics, batch"):
        rows.append((row["model"], *(small(row["figures"][f"disagreement_{name}"]) for name in ("constraintDynamics", "lcaba"))))
    return table(("differs from catena by", "`constraintDynamics`", "`lcaba`"), rows)


def reference_points(of: Results) -> list[str]:
    points, rows = ("centroid", "joint", "origin"), []
    for model in of.models("loops", "fully-recursive/origin, batch"):
        found = [of.row("loops", model, f"fully-recursive/{point}, batch") for point in points]
        cells = [f"{number(row['catena'])} ({row['figures']['multiplications']:,})" for row in found]
        rows.append((model, *cells, f"{found[-1]['catena'] / found[0]['catena']:.2f}"))
    return table(("reference point", *points, "origin / centroid"), rows)


def loop_runs(of: Results) -> list[str]:
    rows = []
    for row in of.rows("loops", "a step of a run"):
        figures = row["figures"]
        cells = f"{figures['until_s']:,.0f} s", f"{figures['steps']:,}", small(figures["loop_error"]), small(figures["energy_change"])
        rows.append((row["model"], *cells, f"{figures['run_s']:#.2g} s"))
    return table(("example", "simulated", "steps", "largest loop error", "energy change", "takes"), rows)


def derivatives(of: Results) -> list[str]:
    rows = []
    for model in of.models("derivatives", "derivatives of inverse dynamics, batch"):
        forward, inverse = (of.row("derivatives", model, f"derivatives of {what} dynamics, batch") for what in ("forward", "inverse"))
        title = "derivatives of forward dynamics"
        one, made = (of.row("derivatives", model, f"{title}, {how}")["catena"] for how in ("one call", "trace and compile"))
        times = [of.row("derivatives", model, f"{name} of forward dynamics, batch")["figures"]["times_kernel"] for name in ("jvp", "vjp")]
        title = f"{model}, {forward['figures']['coordinates']} coordinates, {forward['figures']['states']:,} states"
        rows.append((title, *beside(forward), *beside(inverse), number(one), *(f"{x:.1f}" for x in times), seconds(made)))
    titles = (
        "mechanism", "forward", "Pinocchio", "ratio", "inverse", "Pinocchio", "ratio", "forward, one call", "`jvp`", "`vjp`",
        "trace and compile",
    )  # fmt: skip
    return table(titles, rows) + of.source("derivatives", "derivatives.py")


def derivatives_loops(of: Results) -> list[str]:
    trees = of.models("derivatives", "derivatives of inverse dynamics, batch")
    found = of.rows("derivatives", "derivatives of forward dynamics, batch")
    rows = [(row["model"], *beside(row)) for row in found if row["model"] not in trees]
    return table(("with loops", "catena", "Pinocchio", "ratio"), rows)


def implicit_steps(of: Results) -> list[str]:
    rows = []
    for row in of.rows("derivatives", "implicit midpoint, .*"):
        figures = row["figures"]
        cells = number(row["catena"]), f"{figures['run_ms']:.0f} ms", f"{100 * figures['error']:.1g} %"
        title = row["what"].removeprefix("implicit midpoint, ")
        rows.append((f"{row['model']} hinges, {title}", f"{figures['step_us']:,.0f} µs", f"{figures['steps']:,}", *cells))
    return table(("", "longest step", "steps", "µs a step", "in all", "error"), rows)


def steps(of: Results) -> list[str]:
    rows = []
    for row in of.rows("steps", "a step by .*"):
        figures, title = row["figures"], f"{row['model']}, {row['what'].removeprefix('a step by ')}"
        rows.append((title, *beside(row), f"{1e3 * figures['batch_us']:,.0f}"))
    return table(("step", "catena", "MuJoCo", "ratio", "Pinocchio", "ratio", "in a batch, ns"), rows) + of.source("steps", "steps.py")


def million(of: Results) -> list[str]:
    row = of.row("steps", "four-bar", "many steps by rk4")
    figures, times = row["figures"], {"catena": row["catena"], **row["peers"]}
    rows = []
    for name, us in times.items():
        errors = (small(figures[f"{key}_{name}"], 2) for key in ("loop_error", "end_error", "energy_change"))
        rows.append((name, number(us), f"{figures[f'turns_{name}']:,.0f}", *errors))
    titles = f"{figures['steps']:,} steps", "µs a step", "turns of the crank", "largest loop error, m", "at the end, m", "energy change"
    return table(titles, rows)


def gradients(of: Results) -> list[str]:
    rows = []
    for row in of.rows("steps", "gradient of .*"):
        figures, rollout = row["figures"], of.row("steps", row["model"], row["what"].replace("gradient", "rollout"))
        off = [small(figures[key]) if key in figures else "" for key in ("off_differences", "off_forward")]
        ms = [number(1e-3 * us) for us in (rollout["catena"], row["catena"])]
        rows.append((row["model"], str(figures["runs"]), f"{figures['controls']:,}", *ms, f"{figures['times_rollout']:.1f}", *off))
    return table(("mechanism", "runs", "controls", "rollout, ms", "gradient, ms", "ratio", "off differences", "off forward"), rows)


def memory(of: Results) -> list[str]:
    rows = []
    for row in of.rows("steps", "memory of .*"):
        figures = row["figures"]
        sizes = (f"{figures[name]:,.0f}" for name in ("controls_mb", "rollout_mb", "gradient_mb"))
        rows.append((row["model"], str(figures["runs"]), f"{figures['steps']:,}", *sizes))
    return table(("memory, MB", "runs", "steps", "controls", "rollout", "gradient"), rows)


def steps_mjx(of: Results) -> list[str]:
    rows = []
    for row in of.rows("steps-mjx"):
        figures, ms = row["figures"], [number(1e-3 * us) for us in (row["catena"], row["peers"]["MJX"])]
        off = small(figures["disagreement"]) if "disagreement" in figures else ""
        rows.append((row["what"], *ms, ratio(row["ratios"]["MJX"]), f"{figures['compile_s']:.0f} s", off))
    titles = "arm, 1,000 steps", "catena, ms", "MJX, ms", "ratio", "MJX compiles for", "differ by"
    return table(titles, rows) + of.source("steps-mjx", "steps.py mjx")


def environments(of: Results) -> list[str]:
    peers, rows = ("Gymnasium and MuJoCo", "mujoco.rollout"), []
    for row in of.rows("environments"):
        rates = [rate(us) for us in (row["catena"], *(row["peers"][peer] for peer in peers))]
        times = [ratio(row["ratios"][peer]) for peer in peers]
        title = f"{row['model']}, {row['figures']['substeps']} step{'s' if row['figures']['substeps'] > 1 else ''} of RK4"
        rows.append((title, rates[0], rates[1], times[0], rates[2], times[1]))
    titles = "task", "catena", "Gymnasium and MuJoCo", "ratio", "`mujoco.rollout`", "ratio"
    return table(titles, rows) + of.source("environments", "environments.py")


def environments_mjx(of: Results) -> list[str]:
    rows = []
    for row in of.rows("environments-mjx"):
        rates = [rate(us) for us in (row["catena"], row["peers"]["MJX"])]
        rows.append((row["model"], *rates, ratio(row["ratios"]["MJX"])))
    return table(("task", "catena", "MJX", "ratio"), rows) + of.source("environments-mjx", "environments.py --mjx")


def parameters(of: Results) -> list[str]:
    title, sets, rows = "forward dynamics, batch, ", ("fixed", "masses, inertias", "and centres", "and placements"), []
    for model in of.models("parameters", f"{title}fixed"):
        cells = []
        for name in sets:
            row = of.row("parameters", model, f"{title}{name}")
            times = "" if name == "fixed" else f" ({row['figures']['times_fixed']:.2f})"
            cells.append(f"{number(row['catena'])}{times}; {row['figures']['operations']:,}")
        rows.append((model, *cells))
    return table(("", *sets), rows) + of.source("parameters", "parameters.py")


def parameters_mujoco(of: Results) -> list[str]:
    rows = []
    for model in of.models("parameters", "a step of RK4, own masses"):
        found = (of.row("parameters", model, f"{what}, own masses") for what in ("a step of RK4", "forward dynamics"))
        rows.append((model, *(cell for row in found for cell in beside(row))))
    return table(("", "a step", "`mujoco.rollout`", "ratio", "accelerations", "`mj_setConst`, `mj_forward`", "ratio"), rows)


def ladder(of: Results) -> list[str]:
    names = "catena, fully-recursive/joint", "Pinocchio lcaba", "Pinocchio constraintDynamics", "MuJoCo"
    return _ladder(of, "ladder", "ladder.py", names, "`fully-recursive/joint`", "`lcaba`", "`constraintDynamics`", "MuJoCo")


def ladder_others(of: Results) -> list[str]:
    names = "Drake, a step", "Exudyn, a step"
    return _ladder(of, "ladder-others", "ladder.py --others", names, *names)


def _ladder(of: Results, name: str, script: str, peers: Sequence[str], *titles: str) -> list[str]:
    grown, rows = of.row(name, "ladders", "growth")["figures"], []
    for row in of.rows(name, "forward dynamics, batch"):
        theirs = [(row["peers"][peer], row["ratios"][peer]) if peer in row.get("peers", {}) else None for peer in peers]
        cells = [text for found in theirs for text in (("", "") if found is None else (number(found[0]), ratio(found[1])))]
        rows.append((f"{row['figures']['loops']:,}", number(row["catena"]), *cells))
    powers = [f"k^{grown[peer]:.2f}" if peer in grown else "" for peer in ("catena, coordinate-reduction", *peers)]
    rows.append(("grows as", powers[0], *(cell for power in powers[1:] for cell in (power, ""))))
    columns = ("loops", "`coordinate-reduction`", *(cell for title in titles for cell in (title, "ratio")))
    return table(columns, rows) + of.source(name, script)


def ladder_agreement(of: Results) -> list[str]:
    rows = []
    names = {
        "coordinate-reduction": "`coordinate-reduction`", "fully-recursive/joint": "`fully-recursive/joint`",
        "constraintDynamics": "`constraintDynamics`", "lcaba": "`lcaba`", "MuJoCo": "MuJoCo",
    }  # fmt: skip
    figures = [row["figures"] for row in of.rows("ladder", "forward dynamics, batch")]
    for name, title in names.items():
        off, residual = ([one[f"{key}_{name}"] for one in figures if f"{key}_{name}" in one] for key in ("disagreement", "residual"))
        rows.append((title, small(max(off)) if off else "", small(max(residual))))
    return table(("", "accelerations differ by up to", "accelerations of the loops are off by up to"), rows)


def ladder_operations(of: Results) -> list[str]:
    rows = []
    for row in of.rows("ladder", "operations of .*"):
        text = row["figures"]["operations"].replace("^2", "²").replace("^3", "³")
        rows.append((f"`{row['what'].removeprefix('operations of ')}`", text))
    return table(("method", "operations for k loops"), rows)


def making(of: Results) -> list[str]:
    parts = "model", "tree", "configuration", "plan", "trace_and_compile", "first_call"
    rows = []
    for row in of.rows("making", "make forward dynamics"):
        figures = row["figures"]
        times = (f"{figures[f'{part}_s']:.2f}" for part in parts)
        rows.append((f"{figures['loops']:,}", *times, f"{1e-6 * row['catena']:.2f}", f"{figures['memory_mb']:,.0f}"))
    for row in of.rows("making", "growth"):
        rows.append(("grows as", *[""] * len(parts), f"k^{row['figures']['time_exponent']:.2f}", ""))
    titles = ("loops", *(part.replace("_", " ") for part in parts), "in all, s", "memory, MB")
    return table(titles, rows) + of.source("making", "ladder.py --making")


def closed_robots(of: Results) -> list[str]:
    rows = []
    for row in of.rows("closed_robots"):
        figures = row["figures"]
        times = (f"{figures[name]:.2f}" for name in ("kernel_s", "first_step_s", "pause_s", "interrupt_s", "interrupt_early_s"))
        off = small(max(figures["off_pivots"], figures["off_referee"]))
        rows.append((row["model"], str(figures["coordinates"]), str(figures["loops"]), number(row["catena"]), *times, off))
    titles = (
        "robot", "coordinates", "loops", "µs a state", "kernel, s", "first step of a run, s", "longest pause, s", "Ctrl-C, s",
        "while it compiles, s", "differs by",
    )  # fmt: skip
    return table(titles, rows) + of.source("closed_robots", "closed_robots.py")


def agreement(of: Results) -> list[str]:
    found = of.rows("methods", "differences on .*")
    names = {
        "composite-body": "`articulated-body` against `composite-body`", "innovations": "`articulated-body` against `innovations`",
        "newton-euler": "`newton-euler` gives back the joint forces",
    }  # fmt: skip
    rows = [(title, *(small(row["figures"][name]) for row in found)) for name, title in names.items()]
    return table(("", *(f"{row['model']}, {row['figures']['freedom']} dof" for row in found)), rows)


def symplectic(of: Results) -> list[str]:
    rows = []
    for row in of.rows("symplectic"):
        figures, cost = row["figures"], f"{row['catena']:.1f}" if "catena" in row else ""
        errors = [small(figures[name], 2) for name in ("first_50_s", "last_tenth") if name in figures]
        ended = [*errors[1:], f"{figures['trend']:.2f}"] if "trend" in figures else [f"not finite after {figures['end_s']:.0f} s", ""]
        name = row["what"] if row["what"].startswith("MuJoCo") else f"`{row['what']}`".replace(" at the cost of ", "` at the cost of `")
        rows.append((name, f"{figures['step_ms']:.3g}", cost, errors[0], *ended))
    last = of.rows("symplectic")[0]["figures"]["until_s"] / 10.0
    titles = "integrator", "step [ms]", "µs a step", "first 50 s", f"last {last:g} s", "trend"
    return table(titles, rows) + of.source("symplectic", "symplectic.py")


def contact(of: Results) -> list[str]:
    rows = []
    for row in of.rows("contact"):
        figures = row["figures"]
        exact = f"{figures['closed_form_m']:.4f}" if "closed_form_m" in figures else ""
        places = (f"{figures[name]:.4f}" for name in ("catena_m", "MuJoCo_m"))
        rows.append((f"{row['model']}, {row['what']}, m", *places, exact, f"{figures['furthest_apart_mm']:.1f}"))
    until = of.rows("contact")[0]["figures"]["until_s"]
    return table((f"after {until:g} s", "catena", "MuJoCo", "closed form", "furthest apart, mm"), rows) + of.source("contact", "contact.py")


def speed(of: Results) -> list[str]:
    """Return the table of the README: the best of the peers in each row."""
    forward = "forward dynamics, batch", "forward dynamics, one call"
    many, single = "a step of RK4, many trajectories", "a step of RK4, one trajectory"
    matrices = "derivatives of forward dynamics, batch", "derivatives of forward dynamics, one call"
    listed = [
        ("forward dynamics, 7 bodies of general geometry", "dynamics", "chain of 7", *forward),
        ("the same, 100 bodies", "dynamics", "chain of 100", *forward),
        ("its derivatives, 7-joint arm", "derivatives", "arm", *matrices),
        ("a four-bar linkage", "loops", "four-bar", *forward),
        ("a Stewart platform, 24 coordinates and 6 loops", "loops", "stewart-ups", *forward),
        ("a step of RK4, 7-joint arm; MuJoCo", "simulation", "arm", many, single),
    ]
    rows = []
    for title, name, model, *whats in listed:
        batch, one = (of.row(name, model, what) for what in whats)
        peer, theirs = (min(row["peers"].values()) for row in (batch, one))
        rows.append((title, number(batch["catena"]), number(peer), ratio(peer / batch["catena"]), number(one["catena"]), number(theirs)))
    longest = max(of.rows("ladder", "forward dynamics, batch"), key=lambda row: row["figures"]["loops"])
    rows.append((f"a ladder of {longest['figures']['loops']:,} loops", number(longest["catena"]), *[""] * 4))
    versions, machine = of.facts["head"]["versions"], of.facts["head"]["machine"]
    peers = f"Pinocchio {versions['pin']}, MuJoCo {versions['mujoco']}"
    where = f"one core of an {machine['processor']} ({machine['compiled_for']}), vectors of {machine['lanes']} numbers"
    lines = table(("µs", "catena, batch", "peer", "ratio", "catena, one call", "peer"), rows)
    return lines + ["", f"{of.measured('dynamics')}; {where}; {peers}."]


#: The tables, by the names that pages give them.
TABLES: dict[str, Callable[[Results], list[str]]] = {
    function.__name__: function
    for function in (
        head, dynamics, dynamics_others, dynamics_arm, scale, cores, kinematics, inverse_kinematics, simulation, operations, momenta,
        methods, operators, loops,
        loop_agreement, reference_points, loop_runs, derivatives, derivatives_loops, implicit_steps, steps, million, gradients, memory,
        steps_mjx, environments, environments_mjx, parameters, parameters_mujoco, ladder, ladder_others, ladder_agreement,
        ladder_operations, making, closed_robots, agreement, symplectic, contact, speed,
    )
}  # fmt: skip
