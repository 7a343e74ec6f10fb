"""The figures of the theory pages, drawn from models and kernels; `make gallery` draws them into docs/pictures.

    python docs/figures.py FOLDER [NAME ...]      draw all of them, or some, to look at

They are 6.4 inches wide, and a telephone shows them at half of that: letters have 12 points at least.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from notebooks import cells

import catena as ct
from catena import examples
from catena.view import painter
from catena.view.panels import COLOURS
from catena.view.scene import Scene

BLUE, ORANGE, GREEN, PINK, SKY = COLOURS[:5]
INK, GREY, BAR = "#222222", "#777777", "#b8c4d0"
WIDTH, SMALL, MEDIUM = 6.4, 12.0, 13.5


# --- what the figures are made of


def sheet(height: float) -> tuple[Figure, Axes]:
    """Return an empty figure, and axes over all of it whose unit is an inch."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0.0, WIDTH), ylim=(0.0, height))
    axes.axis("off")
    return figure, axes


def say(axes: Axes, x: float, y: float, text: str, colour: str = INK, size: float = SMALL, **more: Any) -> None:
    """Write a text, centred unless `ha` and `va` say otherwise."""
    axes.text(x, y, text, **{"ha": "center", "va": "center", "color": colour, "fontsize": size, "linespacing": 1.35, "zorder": 9, **more})


def arrow(axes: Axes, a: Any, b: Any, colour: str = INK, bend: float = 0.0, width: float = 2.0) -> None:
    """Draw an arrow from a to b, on an arc where `bend` is not zero."""
    shape = {"arrowstyle": "-|>", "mutation_scale": 16, "connectionstyle": f"arc3,rad={bend}", "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(a, b, color=colour, linewidth=width, zorder=6, joinstyle="miter", **shape))


def bar(axes: Axes, a: Any, b: Any, colour: str = BAR, width: float = 11.0) -> None:
    """Draw a body from a to b."""
    axes.plot(*zip(a, b, strict=True), color=colour, linewidth=width, solid_capstyle="round", zorder=2)


def hinge(axes: Axes, at: Any, colour: str = INK, size: float = 11.0, face: str = "white") -> None:
    """Draw a joint."""
    axes.plot(*at, "o", color=colour, markerfacecolor=face, markersize=size, markeredgewidth=2.0, zorder=5)


def ground(axes: Axes, at: Any, half: float = 0.22) -> None:
    """Draw the ground, from its middle to both sides."""
    x, y = at
    axes.plot([x - half, x + half], [y, y], color=INK, linewidth=2.0, zorder=3)
    for right in np.linspace(x - half + 0.09, x + half, round(2 * half / 0.1)):
        axes.plot([right, right - 0.09], [y, y - 0.1], color=INK, linewidth=1.2, zorder=3)


def mount(axes: Axes, at: Any) -> None:
    """Draw a stand on the ground below a joint."""
    foot = np.array(at) - [0.0, 0.13]
    axes.plot(*zip(foot, at, strict=True), color=INK, linewidth=2.0, zorder=3)
    ground(axes, foot)


def cut(axes: Axes, at: Any, colour: str = INK) -> None:
    """Draw a joint that is cut."""
    axes.plot(*at, "X", color=colour, markersize=14, markeredgecolor="white", zorder=8)


def tile(axes: Axes, at: Any, text: str, colour: str = GREY, wide: float = 1.0, high: float = 0.36, size: float = SMALL) -> None:
    """Draw a box with a text."""
    corner = (at[0] - wide / 2, at[1] - high / 2)
    axes.add_patch(FancyBboxPatch(corner, wide, high, "round,pad=0,rounding_size=0.08", fc="white", ec=colour, linewidth=1.8, zorder=4))
    say(axes, *at, text, size=size)


def seen(m: ct.Model, q: Any, size: tuple[int, int], look: Any = None) -> tuple[np.ndarray, Callable[[Any], np.ndarray]]:
    """Return a picture of a model, as `m.draw` makes it or from the direction `look`, and the function from points to its pixels."""
    scene = Scene(m)
    places = scene.places(0.0, np.asarray(q, dtype=float))
    box = scene.box(places)
    view = painter.camera(box)
    if look is not None:
        toward = np.asarray(look) / np.linalg.norm(look)
        right = np.cross((0.0, 0.0, 1.0), toward) / np.linalg.norm(toward[:2])
        eye = box.centre + np.linalg.norm(view.eye - view.target) * toward
        view = painter.Camera(box.centre, eye, np.stack([right, np.cross(toward, right), toward]))
    image = painter.picture(scene, places, view, painter.floor(box), size)
    return np.asarray(image), lambda points: view.seen(np.asarray(points, dtype=float), size)[0]


def placed(axes: Axes, picture: np.ndarray, left: float, low: float, wide: float, crop: Sequence[int] = ()) -> Callable[[Any], np.ndarray]:
    """Show a picture on the sheet; return the function from its pixels to the sheet. `crop` is left, top, right, bottom."""
    x0, y0, x1, y1 = crop or (0, 0, picture.shape[1], picture.shape[0])
    scale = wide / (x1 - x0)
    axes.imshow(picture[y0:y1, x0:x1], extent=(left, left + wide, low, low + scale * (y1 - y0)), aspect="auto", interpolation="lanczos")
    return lambda pixels: np.array([left, low]) + scale * np.stack([pixels[..., 0] - x0, y1 - pixels[..., 1]], axis=-1)


def plain(axes: Axes) -> None:
    """Give axes of a plot the letters of the figures, and no frame above and at the right."""
    axes.tick_params(labelsize=SMALL)
    axes.spines[["top", "right"]].set_visible(False)


# --- unified.md


def sweeps() -> Figure:
    """Accelerations outward, forces inward, on a chain."""
    m = ct.Model("chain")
    for k in range(3):
        m.add(f"link{k}", ct.rod(1.55, mass=1.0), ct.Revolute("-y"), f"link{k - 1}" if k else "ground", (1.55 * (k > 0), 0, 0))
    frames = ct.poses(m)([0.45, -0.55, 0.3])
    figure, axes = sheet(3.3)
    start = np.array([0.75, 1.05])
    joints = [start + frame[[0, 2], 3] for frame in frames]
    tip = start + (frames[-1] @ [1.55, 0, 0, 1])[[0, 2]]
    mount(axes, joints[0])
    for k, (a, b) in enumerate(zip(joints, [*joints[1:], tip], strict=True)):
        bar(axes, a, b, width=15)
        along = (b - a) / np.linalg.norm(b - a)
        up = np.array([-along[1], along[0]])
        arrow(axes, a + 0.2 * along + 0.27 * up, b - 0.2 * along + 0.27 * up, BLUE)
        arrow(axes, b - 0.2 * along - 0.27 * up, a + 0.2 * along - 0.27 * up, ORANGE)
        hinge(axes, a)
        tilt = np.degrees(np.arctan2(along[1], along[0]))
        say(axes, *(0.5 * (a + b)), ("parent", "body k", "child")[k], rotation=tilt, rotation_mode="anchor", va="center_baseline")
    say(axes, 0.1, 2.9, "outward: accelerations\n$A(k) = \\phi^* A(\\mathrm{parent}) + H^* \\dot v(k)$", BLUE, MEDIUM, ha="left")
    say(axes, 6.3, 0.45, "inward: forces\n$f(k) = \\phi\\, f(\\mathrm{child}) + M A(k)$", ORANGE, MEDIUM, ha="right")
    joint = joints[1]
    say(axes, joint[0] + 0.12, 0.95, "joint force\n$T(k) = H f(k)$", ha="center")
    arrow(axes, (joint[0] + 0.05, 1.27), joint - [0, 0.14], GREY, width=1.4)
    return figure


def operators() -> Figure:
    """A tree, the blocks of phi, and the factors of its mass matrix and of the inverse."""
    parents = (-1, 0, 1, 0, 3, 0, 5)
    m = ct.Model("tree")
    body = ct.Body(1.0, com=(0.2, 0.02, 0.1), inertia=np.diag([0.02, 0.03, 0.03]))
    for k, parent in enumerate(parents):
        on, place = (f"{parent + 1}", (0.1 * k, 0, 0.4)) if k else ("ground", (0, 0, 0))
        m.add(f"{k + 1}", body, ct.Revolute("zyx"[k % 3]), on, place)
    ops = ct.operators(m, np.linspace(0.4, -0.5, 7))
    factor, inverse = np.eye(7) + ops.H @ ops.phi @ ops.K, np.eye(7) - ops.H @ ops.psi @ ops.K
    blocks = np.abs(ops.phi).reshape(7, 6, 7, 6).max(axis=(1, 3))

    figure, axes = sheet(5.6)
    nodes = ((1.15, 4.25), (0.5, 4.65), (0.32, 5.25), (1.15, 4.82), (1.15, 5.38), (1.8, 4.65), (1.98, 5.25))
    ground(axes, (1.15, 3.78))
    axes.plot([1.15, 1.15], [3.78, 4.25], color=INK, linewidth=2, zorder=1)
    for at, parent in zip(nodes[1:], parents[1:], strict=True):
        axes.plot(*zip(at, nodes[parent], strict=True), color=INK, linewidth=2, zorder=1)
    for k, at in enumerate(nodes, start=1):
        axes.plot(*at, "o", markersize=20, color=BAR, markeredgecolor=INK)
        say(axes, *at, str(k))
    matrix(axes, (2.6, 3.75), 1.45, blocks, r"$\phi$", BLUE)
    say(axes, 4.25, 4.48, "row i, column j:\nfull where j is i,\nor is outboard of i;\nempty between\nbranches", ha="left")
    side = 1.25
    for low, parts in (
        (2.02, ((ops.mass @ np.eye(7), r"$\mathcal{M}$", ORANGE), (factor, r"$I + H \phi K$", BLUE), (ops.D, "$D$", GREEN),
                (factor.T, r"$[I + H \phi K]^*$", BLUE))),
        (0.1, ((ops.mass_inverse @ np.eye(7), r"$\mathcal{M}^{-1}$", ORANGE), (inverse.T, r"$[I - H \psi K]^*$", BLUE),
               (np.linalg.inv(ops.D), "$D^{-1}$", GREEN), (inverse, r"$I - H \psi K$", BLUE))),
    ):  # fmt: skip
        for k, (values, name, colour) in enumerate(parts):
            matrix(axes, (0.1 + 1.65 * k, low), side, values, name, colour)
        say(axes, 1.55, low + side / 2, "=", size=18)
    return figure


def matrix(axes: Axes, corner: tuple[float, float], side: float, values: np.ndarray, name: str, colour: str) -> None:
    """Draw the entries of a matrix that are not zero, the larger the darker, with its name above."""
    cell, most = side / len(values), np.abs(values).max()
    frame = FancyBboxPatch(corner, side, side, "square,pad=0.03", fc="white", ec=GREY, linewidth=1.2)
    axes.add_patch(frame)
    for i, j in zip(*np.nonzero(np.abs(values) > 1e-12 * most), strict=True):
        at, strength = (corner[0] + j * cell, corner[1] + side - (i + 1) * cell), 0.35 + 0.65 * np.sqrt(abs(values[i, j]) / most)
        axes.add_patch(FancyBboxPatch(at, cell, cell, "square,pad=-0.012", fc=colour, ec="none", alpha=strength))
    say(axes, corner[0] + side / 2, corner[1] + side + 0.2, name)


# --- fully-recursive.md


def points() -> Figure:
    """The three reference points of [KY03] on a chain, and the shifts between them."""
    length, base = 1.2, np.array([0.85, 0.3])
    m = ct.Model("chain")
    for k in range(3):
        m.add(f"link{k}", ct.rod(length, mass=1.0), ct.Revolute("-y"), f"link{k - 1}" if k else "ground", (length * (k > 0), 0, 0))
    frames = ct.poses(m)([0.55, -0.75, 0.6])
    figure, axes = sheet(4.9)
    for row, (name, remark) in enumerate((
        ("centroid", "mass matrices of two blocks,\na shift $B_1$ at every joint"),
        ("joint", "$B_2$ has no linear part\nfor hinges and balls"),
        ("origin", "no shift, $B_1 = I$;\nmass matrices are full"),
    )):  # fmt: skip
        origin = np.array([0.25, 3.4 - 1.6 * row])
        joints = [origin + base + frame[[0, 2], 3] for frame in frames]
        ends = [*joints[1:], origin + base + (frames[-1] @ [length, 0, 0, 1])[[0, 2]]]
        mount(axes, joints[0])
        for a, b in zip(joints, ends, strict=True):
            bar(axes, a, b)
        for a in joints:
            hinge(axes, a)
        chosen = {"centroid": [0.5 * (a + b) for a, b in zip(joints, ends, strict=True)], "joint": joints, "origin": [origin]}[name]
        for end in ((0.42, 0), (0, 0.42)):
            arrow(axes, origin, origin + end, GREY, width=1.5)
        for k, at in enumerate(chosen):
            if k:
                arrow(axes, chosen[k - 1], at, ORANGE, bend=-0.3)
            axes.plot(*at, "o", color=BLUE, markersize=10, zorder=7)
        if name == "origin":  # where the point of each body is
            for a, b in zip(joints, ends, strict=True):
                axes.plot(*zip(origin, 0.5 * (a + b), strict=True), color=BLUE, linewidth=1.4, linestyle=(0, (3, 2)), zorder=4)
        say(axes, 6.35, origin[1] + 1.02, name, BLUE, MEDIUM, ha="right", weight="bold")
        say(axes, 6.35, origin[1] + 0.52 - 0.12, remark, ha="right")
    return figure


def quarter_car() -> Figure:
    """The suspension of [KY03], its tree and its cuts."""
    m = examples.quarter_car()
    picture, pixels = seen(m, m.neutral(), (1000, 1000), (0.9, -0.55, 0.35))
    figure, axes = sheet(6.1)
    on = placed(axes, picture, 1.25, 3.15, 3.9, (110, 140, 900, 730))
    bodies = dict(zip(m.body_names, ct.poses(m)(m.neutral()), strict=True))
    for loop in m.loops:
        cut(axes, on(pixels((bodies[loop.a] @ [*loop.at_a.p, 1.0])[:3])), ORANGE)
    for name, height in (("rear link", 5.3), ("front link", 4.9), ("tie rod", 4.25), ("wishbone", 3.6)):
        say(axes, 0.1, height, name, ha="left")
        centre = (bodies[name] @ [*m.links[m.body_names.index(name)].body.com, 1.0])[:3]
        axes.plot(*zip((1.05, height), on(pixels(centre)), strict=True), color=GREY, linewidth=1.0)
    say(axes, 5.1, 4.6, "knuckle\nand wheel", ha="left")

    low = 0.5
    places = {"wishbone": (0.75, 1.2), "knuckle": (0.75, 2.5), "front link": (2.25, 1.2), "rear link": (3.75, 1.2), "tie rod": (5.25, 1.2)}
    ground(axes, (3.2, low), 3.0)
    for k, (name, at) in enumerate(places.items()):
        inboard = places["wishbone"] if name == "knuckle" else (at[0], low)
        axes.plot(*zip(at, inboard, strict=True), color=INK, linewidth=2, zorder=1)
        tile(axes, at, name, BLUE, 1.3)
        if k > 1:
            up = 2.38 + 0.12 * (4 - k)
            axes.plot([at[0], at[0], 1.4], [1.38, up, up], color=ORANGE, linewidth=2, linestyle=(0, (3, 2)), zorder=1)
            cut(axes, (at[0], 1.8), ORANGE)
            say(axes, at[0] + 0.16, 1.8, ("", "", r"$\lambda_1$", r"$\lambda_2$", r"$\lambda_3$")[k], ORANGE, MEDIUM, ha="left")
    for x, y, text in ((0.85, 1.72, "ball, 3"), (0.85, 0.75, "hinge, 1"), *((x, 0.75, "universal, 2") for x in (2.35, 3.85, 5.35))):
        say(axes, x, y, text, ha="left")
    say(axes, 3.2, 0.16, "10 coordinates; three balls cut: 9 multipliers", size=MEDIUM)
    return figure


# --- coordinate-reduction.md


@cache
def page(name: str) -> dict[str, Any]:
    """Return the names that the code of a page defines."""
    text, names = Path(__file__).with_name(name).read_text(encoding="utf-8"), {"print": lambda *_: None}
    exec("\n".join(code for kind, code in cells(text) if kind == "code"), names)
    return names


def reduction() -> Figure:
    """A loop that is cut, and what its bodies pass inward."""
    m = page("coordinate-reduction.md")["table"]
    frames = ct.poses(m)(m.assemble([0.0, -1.1, 0.6, -1.8], crank=-1.1))
    figure, axes = sheet(6.3)
    start, scale = np.array([1.7, 4.25]), 2.6
    crank, coupler, rocker = (start + scale * frame[[0, 2], 3] for frame in frames[1:])
    pin = start + scale * (frames[2] @ [1.0, 0, 0, 1])[[0, 2]]
    bar(axes, crank - [0.4, 0], rocker + [0.4, 0], "#d8dde3", 15)
    mount(axes, 0.5 * (crank + rocker) - [0, 0.1])
    for a, b, colour in ((crank, coupler, BLUE), (coupler, pin, ORANGE), (rocker, pin, ORANGE)):
        bar(axes, a, b, colour)
    for at in (crank, coupler, rocker):
        hinge(axes, at)
    cut(axes, pin)
    say(axes, *(0.5 * (crank + coupler) - [0.25, 0]), "crank:\nindependent", BLUE, MEDIUM, ha="right")
    say(axes, *(0.5 * (coupler + pin) + [-0.3, 0.42]), "coupler: dependent", ORANGE, MEDIUM)
    say(axes, *(0.5 * (rocker + pin) + [0.25, 0]), "rocker:\ndependent", ORANGE, MEDIUM, ha="left")
    say(axes, *(pin + [0.2, 0.12]), "pin, cut", size=MEDIUM, ha="left")
    say(axes, crank[0] - 0.6, start[1], "table", ha="right", size=MEDIUM)

    places = {"coupler": (1.0, 3.2), "crank": (1.0, 2.25), "rocker": (4.1, 2.25), "table": (2.55, 1.3), "ground": (2.55, 0.25)}
    for name, colour in (("coupler", ORANGE), ("crank", BLUE), ("rocker", ORANGE), ("table", GREY), ("ground", INK)):
        tile(axes, places[name], name, colour, 1.15)
    gap = np.array([0, 0.2])
    for name, on, aside in (("coupler", "crank", 0), ("table", "ground", 0), ("crank", "table", -0.35), ("rocker", "table", 0.35)):
        arrow(axes, places[name] - gap, places[on] + gap + [aside, 0], INK)
    axes.plot([1.6, 4.1, 4.1], [3.2, 3.2, 2.45], color=GREY, linewidth=1.8, linestyle=(0, (3, 2)))
    cut(axes, (4.1, 3.2))
    say(axes, 1.15, 2.72, "$A$; coupler waits:  7 × 7", ha="left")
    say(axes, 0.1, 1.46, "$A$; crank, coupler\nwait:  8 × 8", ha="left")
    say(axes, 3.8, 1.76, "$A$; rocker waits:  7 × 7", ha="left")
    say(axes, 3.3, 1.16, "loop closed: coupler and rocker\nfollow from crank", ha="left")
    say(axes, 2.75, 0.66, "$A$ alone:  6 × 6, as in a tree", ha="left")
    return figure


def loop_costs() -> Figure:
    """Operations against loops, on the ladder of the page."""
    ladder, counts = page("coordinate-reduction.md")["ladder"], (1, 2, 3, 4, 5, 6, 7, 8)
    figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
    axes = figure.add_subplot()
    for method, name, colour, at in (
        ("fully-recursive/joint", "multipliers", ORANGE, (6.7, 8000)), ("coordinate-reduction", "coordinate reduction", BLUE, (8.2, 1300)),
    ):  # fmt: skip
        operations = [sum(ct.forward_dynamics(ladder(count), method).operations.values()) for count in counts]
        axes.plot(counts, operations, "o-", color=colour, linewidth=2)
        say(axes, *at, name, colour, MEDIUM, ha="right")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("loops of the ladder", fontsize=MEDIUM)
    axes.set_ylabel("operations", fontsize=MEDIUM)
    axes.set(xlim=(0.7, 8.3), ylim=(0, None))
    plain(axes)
    picture, _ = seen(ladder(3), ladder(3).neutral(), (700, 700))
    inset = axes.inset_axes((0.05, 0.38, 0.36, 0.62))
    inset.imshow(picture)
    inset.axis("off")
    return figure


# --- canonical-momenta.md


def momenta() -> Figure:
    """What a canonical momentum is, and the two sweeps."""
    length = 1.5
    m = ct.Model("chain")
    for k in range(3):
        m.add(f"link{k}", ct.rod(length, mass=1.0), ct.Revolute("-y"), f"link{k - 1}" if k else "ground", (length * (k > 0), 0, 0))
    frames = ct.poses(m)([0.35, -0.4, 0.3])
    figure, axes = sheet(3.95)
    start = np.array([0.8, 1.15])
    joints = [start + frame[[0, 2], 3] for frame in frames]
    ends = [*joints[1:], start + (frames[-1] @ [length, 0, 0, 1])[[0, 2]]]
    for width, colour in ((68, SKY), (64, "#e8f4fc")):
        round_ends = {"solid_capstyle": "round", "solid_joinstyle": "round"}
        axes.plot(*zip(joints[1], joints[2], ends[2], strict=True), color=colour, linewidth=width, zorder=0, **round_ends)
    mount(axes, joints[0])
    for a, b in zip(joints, ends, strict=True):
        along = (b - a) / np.linalg.norm(b - a)
        up = np.array([-along[1], along[0]])
        bar(axes, a, b, width=13)
        arrow(axes, b - 0.2 * along + 0.25 * up, a + 0.2 * along + 0.25 * up, ORANGE)
        arrow(axes, a + 0.2 * along - 0.25 * up, b - 0.2 * along - 0.25 * up, BLUE)
        hinge(axes, a)
    say(axes, 0.1, 3.55, "inward: inertia and momentum that\nthe parent feels of a body", ORANGE, MEDIUM, ha="left")
    say(axes, 6.3, 0.36, "outward: velocities; rates $\\dot p$, the\nforces on all that a joint carries", BLUE, MEDIUM, ha="right")
    say(axes, 2.0, 2.72, "$p_k$: momentum of all that\njoint $k$ carries, about its axis", ha="left")
    arrow(axes, (2.3, 2.45), joints[1] + [0.03, 0.13], GREY, width=1.4)
    return figure


def areas() -> Figure:
    """A patch of states of a pendulum after some steps of two integrators."""
    m = ct.Model("pendulum")
    m.add("arm", ct.rod(1.0, mass=1.0), ct.Revolute("y"))
    inertia = float(ct.mass_matrix(m)([0.0])[0, 0])
    circle = np.linspace(0.0, 2 * np.pi, 241)
    q0, p0 = np.pi / 2 + 1.3 + 0.45 * np.cos(circle)[:, None], 0.55 * np.sin(circle)[:, None]
    figure = Figure(figsize=(WIDTH, 3.6), layout="constrained")
    grid_q, grid_p = np.meshgrid(np.linspace(-2.6, 2.6, 121), np.linspace(-2.5, 2.5, 121))
    potential = ct.energy(m)(np.pi / 2 + grid_q[..., None], np.zeros((*grid_q.shape, 1)))[1]
    shown = (("symplectic-midpoint", "symplectic", BLUE), ("midpoint", "explicit, same order", ORANGE))
    for place, (name, title, colour) in enumerate(shown):
        axes = figure.add_subplot(1, 2, place + 1)
        axes.contour(grid_q, grid_p, 0.5 * grid_p**2 / inertia + potential, levels=7, colors="#c8c8c8", linewidths=0.9, linestyles="solid")
        run = ct.rollout(m, q0, p0 / inertia, step=0.12, steps=12, every=4, integrator=name)
        q, p = run.q[..., 0].T - np.pi / 2, ct.momenta(m)(run.q, run.v)[..., 0].T
        size = 0.5 * np.abs(np.sum(q[:, :-1] * p[:, 1:] - q[:, 1:] * p[:, :-1], axis=1))
        for k, (x, y) in enumerate(zip(q, p, strict=True)):
            axes.fill(x, y, color=colour, alpha=0.3 + 0.1 * k, linewidth=0)
            say(axes, x.mean(), y.mean(), f"{size[k] / size[0]:.2f}")
        axes.set_title(title, fontsize=MEDIUM, color=colour)
        axes.set_xlabel("angle $q$ [rad]", fontsize=SMALL)
        if place == 0:
            axes.set_ylabel("momentum $p$ [N m s]", fontsize=SMALL)
        axes.set(xlim=(-2.6, 2.6), ylim=(-2.5, 2.5))
        plain(axes)
    return figure


# --- parallel-robots.md


def legs() -> Figure:
    """A Stewart platform, its legs and its cuts, and the three complements."""
    m = examples.stewart_ups()
    figure, axes = sheet(4.9)
    picture, pixels = seen(m, m.neutral(), (1000, 1000))
    on = placed(axes, picture, 0.0, 1.55, 3.5, (145, 215, 800, 800))
    bodies = dict(zip(m.body_names, ct.poses(m)(m.neutral()), strict=True))
    for loop in m.loops:
        cut(axes, on(pixels((bodies[loop.a] @ [*loop.at_a.p, 1.0])[:3])))
    x, low = 4.35, 1.75
    places = {"platform": (x, 4.6), "upper part": (x, 3.6), "lower part": (x, 2.6)}
    axes.plot([x, x], [low, 4.6], color=INK, linewidth=2, zorder=1)
    axes.plot([x, x], [3.78, 4.42], color="white", linewidth=3, zorder=1)
    axes.plot([x, x], [3.78, 4.42], color=GREY, linewidth=1.8, linestyle=(0, (3, 2)), zorder=1)
    ground(axes, (x, low), 0.5)
    for name, at in places.items():
        tile(axes, at, name, GREY if name == "platform" else BAR, 1.3)
    cut(axes, (x, 4.1))
    say(axes, x + 0.25, 4.1, "ball: cut,\n3 constraints", ha="left")
    hinge(axes, (x, 3.1), BLUE, face=BLUE)
    say(axes, x + 0.25, 3.1, "slide: motor", BLUE, ha="left")
    hinge(axes, (x, 2.15), GREY)
    say(axes, x + 0.25, 2.15, "universal joint:\npassive", ha="left")
    say(axes, 5.6, 4.68, "6 legs", size=MEDIUM)
    stations = {"rates $\\dot\\theta$": 0.6, "motors": 2.35, "joints": 4.05, "bodies": 5.75}
    for name, station in stations.items():
        tile(axes, (station, 0.62), name, INK, 0.95)
    for left, symbol in zip(stations.values(), ("$N_d$", "$N_c$", "$N_l$"), strict=False):
        arrow(axes, (left + 0.5, 0.62), (left + (1.25 if left < 1 else 1.2), 0.62), ORANGE)
        say(axes, left + 0.86, 0.85, symbol, ORANGE, MEDIUM)
    for middle, meaning in ((1.47, "axes of\nthe motors"), (3.2, "across\nthe legs"), (4.9, "along\nthe legs")):
        say(axes, middle, 0.24, meaning)
    axes.plot([1.87, 6.23], [1.14, 1.14], color=GREY, linewidth=1.2)
    say(axes, 4.05, 1.3, "twists of")
    return figure


def singular() -> Figure:
    """How near a Stewart platform is to a singularity as it turns, with its legs from above."""
    m = examples.stewart_ups()
    robot = ct.ParallelManipulator(m, examples.ACTUATED["stewart-ups"])
    height = ct.poses(m, of="platform")(m.neutral())[2, 3]
    degrees = np.linspace(0.0, 120.0, 41)
    at = [robot.inverse_kinematics(ct.Pose((0, 0, height), rpy=(0, 0, np.radians(angle))), guess=m.neutral()) for angle in degrees]
    near = robot.singularities(np.array(at)).type_2
    figure = Figure(figsize=(WIDTH, 4.7))
    axes = figure.add_axes((0.14, 0.13, 0.83, 0.36))
    axes.plot(degrees, near, color=BLUE, linewidth=2.2)
    axes.set_xlabel("turn of the platform [degrees]", fontsize=MEDIUM)
    axes.set_ylabel("type_2", fontsize=MEDIUM)
    axes.set(xlim=(0, 120), ylim=(0, None))
    axes.set_xticks(np.arange(0, 121, 15))
    plain(axes)
    for k, angle in enumerate((0.0, 45.0, 90.0)):
        i = int(np.argmin(np.abs(degrees - angle)))
        frames = dict(zip(m.body_names, ct.poses(m)(at[i]), strict=True))
        feet = np.array([frames[loop.a.replace("upper", "lower")][:2, 3] for loop in m.loops])
        ends = np.array([(frames["platform"] @ [*loop.at_b.p, 1.0])[:2] for loop in m.loops])
        plan = figure.add_axes((0.01 + 0.33 * k, 0.5, 0.32, 0.44))
        plan.fill(*feet.T, color="#eeeeee", zorder=0)
        plan.fill(*ends.T, color=SKY, alpha=0.45, zorder=1)
        for foot, end in zip(feet, ends, strict=True):
            plan.plot(*zip(foot, end, strict=True), color=ORANGE if near[i] < 1e-6 else INK, linewidth=2.6, zorder=2)
        plan.set(xlim=(-0.6, 0.6), ylim=(-0.6, 0.6), aspect="equal")
        plan.axis("off")
        plan.set_title(f"{angle:.0f}°" + (": singular" if near[i] < 1e-6 else ""), fontsize=MEDIUM)
        axes.plot(degrees[i], near[i], "o", color=ORANGE if near[i] < 1e-6 else INK, markersize=9, clip_on=False, zorder=5)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    f"theory-{make.__name__.replace('_', '-')}": make for make in (
        sweeps, operators, points, quarter_car, reduction, loop_costs, momenta, areas, legs, singular,
    )
}


def draw(folder: Path, names: Sequence[str] = ()) -> Iterator[Path]:
    """Write the figures, or those of some names; yield their files."""
    for name in names or FIGURES:
        file = folder / f"{name}.png"
        FIGURES[name]().savefig(file, dpi=150)
        yield file


if __name__ == "__main__":
    for drawn in draw(Path(sys.argv[1]), sys.argv[2:]):
        print(drawn)
