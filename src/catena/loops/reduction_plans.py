"""Plans of coordinate reduction: which constraints are independent, which coordinates depend on them, and where they are eliminated.

A plan is made at a configuration that closes the loops, from the conditioning there; it holds wherever the pivots that the formulation
returns stay away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from catena.errors import ModelError
from catena.formulations.linear.reduction_plan import EliminationStage, ReductionPlan
from catena.formulations.loops.constraints import row_names
from catena.formulations.loops.partitions import CoordinatePartition, GroupPartition
from catena.loops.groups import alike_groups, loop_groups
from catena.loops.mobility import independent_rows
from catena.loops.scaling import coordinate_units
from catena.model import Mechanism, Tree
from catena.model.driven_trees import randomly_driven
from catena.tolerances import PLAN_FEW, PLAN_FEWER, PLAN_HOLD, PLAN_PIVOT, ZERO

Rows = dict[int, dict[int, float]]  # constraint, velocity coordinate -> entry
Pairs = list[tuple[int, int]]  # constraint, the coordinate that depends on it


def reduction_plan(m: Mechanism, q: Any) -> ReductionPlan:
    """Return the plan of coordinate reduction for a configuration that closes the loops."""
    return _Planner(m, np.asarray(q, dtype=float)).plan()


def dependent_coordinates(m: Mechanism, plan: ReductionPlan) -> CoordinatePartition:
    """Return the coordinates that depend in a plan, and the constraints that they follow from, group of loops by group."""
    stages = [stage for _, _, stages in _places(m.tree(), plan) for stage in stages]
    place, groups = {}, [loops.group for loops in loop_groups(m)]
    for n, group in enumerate(groups):
        place |= dict.fromkeys(group.rows, n)
    pairs: list[Pairs] = [[] for _ in groups]
    for i, j in (pair for stage in stages for pair in stage.closed):
        pairs[place[i]].append((i, j))
    found = []
    for group, own in zip(groups, pairs, strict=True):
        rows, dependent = tuple(i for i, _ in own), tuple(j for _, j in own)
        redundant = tuple(i for i in group.rows if i not in rows)
        found.append(GroupPartition(group, rows, redundant, dependent, tuple(j for j in group.columns if j not in dependent)))
    return CoordinatePartition(tuple(found))


def explanation(m: Mechanism, plan: ReductionPlan) -> str:
    """Return a plan in words: where each loop is closed, and which coordinates follow."""
    tree, names = m.tree(), m.v_names
    loops = row_names(tree)
    lines = []
    for k, side, stages in _places(tree, plan):
        for stage in stages:
            if stage.closed or stage.held:
                pairs = stage.closed or stage.held
                which = " and ".join(f"'{name}'" for name in dict.fromkeys(loops[i] for i, _ in pairs))
                many = "loops" if " and " in which else "loop"
                does = f"{many} {which} closed" if stage.closed else f"{many} {which} held, while {_listed(names, stage.free)} moves"
                lines.append(f"{side} {k}: {does}; {_listed(names, [j for _, j in pairs])} depend{'s' if len(pairs) == 1 else ''}")
    return "\n".join(lines)


def _places(tree: Tree, plan: ReductionPlan) -> list[tuple[str, str, tuple[EliminationStage, ...]]]:
    found = []
    for k in reversed(range(tree.n)):
        found += [(f"'{tree.names[k]}'", "on", plan.outboard[k]), (f"'{tree.names[k]}'", "at the joint of", plan.inboard[k])]
    return [*found, ("the ground", "on", plan.outboard[-1])]


def _listed(names: tuple[str, ...], which: Any) -> str:
    return ", ".join(names[j] for j in which)


class _Planner:
    """Walks inward as the formulation does, with the rows of the constraints only: at q, and at places where the loops are open.

    A row that is a combination of others at all of these is one everywhere: then the coordinates in it are as many as they can be.
    """

    def __init__(self, m: Mechanism, q: np.ndarray) -> None:
        self.tree = tree = m.tree()
        self.reach = tuple(coordinate_units(m).tolist())
        rng = np.random.default_rng(0)
        self.chosen = independent_rows(m, q)
        self.samples = [_rows(*at, self.chosen) for at in ((m, q), *(_random(m, rng) for _ in range(2)))]
        self.known: dict[tuple, list[tuple[int, int]] | None] = {}
        self.owner = {j: k for k, at in enumerate(tree.v_slices) for j in range(at.start, at.stop)}
        self.complete: dict[tuple[int, str], list[int]] = {}
        self.seen: dict[int, set[int]] = {}  # rows that a coordinate is in
        for i, row in self.samples[0].items():
            self.complete.setdefault(_complete(tree, {self.owner[j] for j in row}), []).append(i)
            for j in row:
                self.seen.setdefault(j, set()).add(i)
        self.place = {i: where for where, rows in self.complete.items() for i in rows}
        self.replaced: dict[int, list[int]] = {}  # coordinates that depend on others by loops that are closed, and these
        self.until: dict[int, list[tuple[int, str]]] = {}  # where all joints are known of the loops that a coordinate moves

    def plan(self) -> ReductionPlan:
        """Return the plan."""
        tree = self.tree
        waiting: list[list[int]] = [[] for _ in range(tree.n + 1)]
        outboard: list[tuple[EliminationStage, ...]] = [()] * (tree.n + 1)
        inboard: list[tuple[EliminationStage, ...]] = [()] * tree.n
        for k in reversed(range(tree.n)):
            p, at = tree.parent[k], tree.v_slices[k]
            waiting[k], outboard[k] = self._stages(waiting[k], (k, "outboard"))
            waiting[k], inboard[k] = self._stages(_together(waiting[k], range(at.start, at.stop)), (k, "inboard"))
            waiting[p] = _together(waiting[p], waiting[k])
        left, outboard[-1] = self._stages(waiting[-1], (-1, "outboard"))
        assert not left, left
        return ReductionPlan(self.chosen, tuple(outboard), tuple(inboard), self.reach)

    def _stages(self, waiting: list[int], where: tuple[int, str]) -> tuple[list[int], tuple[EliminationStage, ...]]:
        """Return the coordinates that still wait after the stages at a place, and the stages: one for each group of loops."""
        stages, waiting = [], self._without_replaced(waiting)
        for rows, coordinates in [*self._groups(waiting, set(self.complete.get(where, ()))), *self._early(waiting, where)]:
            if rows:
                closed = self._pairs(rows, coordinates, 0.0)
                if closed is None or len(closed) < len(rows):
                    raise ModelError("the constraints are not independent at this configuration")
                dependent = [j for _, j in closed]
                others = [j for j in coordinates if j not in dependent]
                for j in others:
                    self.until.setdefault(j, []).append(self.place[rows[0]])
                self._close(closed, others)
                self.replaced |= dict.fromkeys(dependent, others)
                waiting = self._without_replaced(waiting)
                stages.append(EliminationStage(closed=tuple(closed)))
        alone: list[int] = []
        for rows, coordinates in self._groups(waiting):
            if any(_order(end) > _order(where) for j in coordinates for end in self.until.get(j, ())):
                continue
            pairs = self._pairs(rows, coordinates, PLAN_HOLD)
            if pairs is None or len(pairs) == len(coordinates) or self._rank(rows, coordinates) > len(pairs):
                continue
            if rows and len(set().union(*(self.samples[0][i] for i in rows))) <= PLAN_FEW * len(pairs):
                continue
            dependent = [j for _, j in pairs]
            free = [j for j in coordinates if j not in dependent]
            waiting = [j for j in waiting if j not in free]
            for j in free:
                self._forget(j)
            if pairs:
                stages.append(EliminationStage((), tuple(pairs), tuple(free)))
            else:
                alone += free
        if alone:  # of no open loop
            stages.append(EliminationStage(free=tuple(alone)))
        return waiting, tuple(stages)

    def _without_replaced(self, waiting: list[int]) -> list[int]:
        """Return the coordinates that wait once those that depend on others by loops that are closed are replaced by these."""
        while dependent := [j for j in waiting if j in self.replaced]:
            others = [other for j in dependent for other in self.replaced[j]]
            waiting = _together([j for j in waiting if j not in dependent], others)
        return waiting

    def _early(self, waiting: list[int], where: tuple[int, str]) -> list[tuple[list[int], list[int]]]:
        """Return constraints, with their coordinates, that are not complete here, but leave fewer coordinates to wait if they close now."""
        found, left = [], dict.fromkeys(waiting)
        while left:
            j, _ = left.popitem()
            for end in dict.fromkeys(self.place[i] for i in sorted(self.seen.get(j, ()))):
                rows, coordinates = self._connected(j, end)
                left = {j: None for j in left if j not in coordinates}
                inner = any(_order(self.place[i]) < _order(end) for j in coordinates for i in self.seen[j])
                if end != where and not inner and self._shorter(coordinates, len(coordinates) - len(rows), waiting, where[0], end[0]):
                    found.append((sorted(rows), sorted(coordinates, key=lambda j: (-self.owner[j], j))))
        return found

    def _connected(self, j: int, end: tuple[int, str]) -> tuple[set[int], set[int]]:
        """Return the constraints that are complete at a place and connected with a coordinate, and their coordinates."""
        rows: set[int] = set()
        coordinates, new = {j}, [j]
        while new:
            for i in self.seen[new.pop()] - rows:
                if self.place[i] == end:
                    rows.add(i)
                    new += [other for other in self.samples[0][i] if other not in coordinates]
                    coordinates.update(self.samples[0][i])
        return rows, coordinates

    def _shorter(self, coordinates: set[int], others: int, waiting: list[int], k: int, end: int) -> bool:
        """Return whether fewer coordinates wait with the bodies from k inward to the end if so many others stand for all of them."""
        if others >= sum(j in coordinates for j in waiting):
            return False
        carried: dict[int, int] = {}  # how many coordinates bodies carry
        for j in coordinates:
            body = self.owner[j]
            while body != end:
                carried[body] = carried.get(body, 0) + 1
                body = self.tree.parent[body]
        fewer = sum(count - others for body, count in carried.items() if body <= k and self.tree.parent[body] >= 0)
        return fewer >= PLAN_FEWER

    def _pairs(self, rows: list[int], coordinates: list[int], limit: float) -> Pairs | None:
        """Return pairs (row, coordinate) in the order of elimination, as many as the rank; None where a pivot is below the limit.

        Of the pivots that are large enough in their rows, that which spreads least is taken, and of these that which is furthest out.
        """
        tables = [self._table(sample, rows, coordinates) for sample in self.samples]
        depth = np.array([self.tree.depth[self.owner[j]] for j in coordinates])
        depth -= depth.min(initial=len(self.tree.depth))
        key = (limit, len(rows), *depth.tolist(), *(table.tobytes() for table in tables))
        if key not in self.known:
            self.known[key] = self._chosen(tables, depth, limit)
        found = self.known[key]
        return None if found is None else [(rows[r], coordinates[c]) for r, c in found]

    @staticmethod
    def _chosen(tables: list[np.ndarray], depth: np.ndarray, limit: float) -> list[tuple[int, int]] | None:
        """Return the pairs of rows and columns of `_pairs`; groups of loops that are alike have the same."""
        table = tables[0].copy()
        largest = np.abs(table).max(initial=0.0)
        pattern = np.any([np.abs(t) > ZERO * np.abs(t).max(initial=0.0) for t in tables], axis=0)
        lengths = np.linalg.norm(table, axis=1)
        found, left_rows, left = [], list(range(table.shape[0])), list(range(table.shape[1]))
        while left_rows and left:
            sizes = np.abs(table[np.ix_(left_rows, left)])
            if sizes.max() <= ZERO * largest:
                break
            inside = pattern[np.ix_(left_rows, left)]
            spread = np.outer(inside.sum(axis=1) - 1, inside.sum(axis=0) - 1)
            good = (sizes >= PLAN_PIVOT * sizes.max(axis=1, keepdims=True)) & (sizes > ZERO * largest)
            if limit:
                good &= sizes >= limit * lengths[left_rows][:, None]
            if not good.any():
                return None
            n, o = max(np.argwhere(good).tolist(), key=lambda at: (-spread[at[0], at[1]], depth[left[at[1]]], sizes[at[0], at[1]]))
            r, c = left_rows.pop(n), left.pop(o)
            for other in left_rows:
                table[other] -= table[other, c] / table[r, c] * table[r]
                if pattern[other, c]:
                    pattern[other] |= pattern[r]
            found.append((r, c))
        return found

    def _table(self, sample: Rows, rows: list[int], coordinates: list[int]) -> np.ndarray:
        return np.array([[sample[i].get(j, 0.0) for j in coordinates] for i in rows]).reshape(len(rows), len(coordinates))

    def _rank(self, rows: list[int], coordinates: list[int]) -> int:
        """Return the rank of rows on coordinates, at most configurations."""
        if not rows:
            return 0
        return max(int(np.linalg.matrix_rank(self._table(sample, rows, coordinates))) for sample in self.samples)

    def _groups(self, coordinates: list[int], of: set[int] | None = None) -> list[tuple[list[int], list[int]]]:
        """Return the coordinates in groups that rows connect, each with its rows: all open ones, or some."""
        left, groups = dict.fromkeys(coordinates), []
        while left:
            new, rows, group = [next(iter(left))], set(), set()
            while new:
                j = new.pop()
                group.add(j)
                seen = self.seen.get(j, set())
                for i in (seen if of is None else seen & of) - rows:
                    rows.add(i)
                    new += [other for other in self.samples[0][i] if other in left and other not in group]
            groups.append((sorted(rows), [j for j in left if j in group]))
            left = {j: None for j in left if j not in group}
        return groups

    def _close(self, pairs: Pairs, movers: list[int]) -> None:
        """Put the dependent coordinates of closed rows into the rows that stay open."""
        dependent = [j for _, j in pairs]
        others = set().union(*(self.seen[j] for j in dependent)) - {i for i, _ in pairs}
        for i, _ in pairs:
            for j in self.samples[0][i]:
                self.seen[j].discard(i)
        for sample in self.samples:
            closed = [sample.pop(i) for i, _ in pairs]
            if others:
                on = [[row.get(j, 0.0) for j in dependent] for row in closed]
                B = np.linalg.solve(on, [[row.get(j, 0.0) for j in movers] for row in closed])
                for i in others:
                    change = np.array([sample[i].get(j, 0.0) for j in dependent]) @ B
                    for j, x in zip(movers, change, strict=True):
                        sample[i][j] = sample[i].get(j, 0.0) - x
        for j in movers:
            self.seen.setdefault(j, set()).update(others)
        for j in dependent:
            self._forget(j)

    def _forget(self, j: int) -> None:
        """Take a coordinate out of all rows."""
        for i in self.seen.pop(j, ()):
            for sample in self.samples:
                sample[i].pop(j, None)


def _rows(m: Mechanism, q: np.ndarray, chosen: Sequence[int]) -> Rows:
    """Return the chosen rows of the constraints, without units."""
    found: Rows = {i: {} for i in chosen}
    for alike in alike_groups(m):
        (own,), which = alike.different(q[alike.positions])
        entries = alike.loops.constraint_rows(own)
        for rows, columns, k in zip(alike.rows.tolist(), alike.columns.tolist(), which, strict=True):
            for i, row in zip(rows, entries[k], strict=True):
                if i in found:
                    found[i] = {columns[c]: x for c, x in row.items()}
    return found


def _random(m: Mechanism, rng: np.random.Generator) -> tuple[Mechanism, np.ndarray]:
    """Return a mechanism with its driven joints at random positions, and random positions, alike for groups of loops that are."""
    now, q = randomly_driven(m, rng), m.random(rng)
    for alike in alike_groups(now):
        q[alike.positions] = q[alike.positions[0]]
    return now, q


def _together(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Return coordinates that wait on one side or on both, each once."""
    return [*dict.fromkeys((*first, *second))]


def _order(where: tuple[int, str]) -> tuple[int, bool]:
    """Return when a place is reached on the way inward."""
    k, side = where
    return (1 if k < 0 else -k), side == "inboard"


def _complete(tree: Tree, bodies: set[int]) -> tuple[int, str]:
    """Return where all joints of the bodies are known first on the way inward: a body, and the side of its joint."""
    left = set(bodies)
    while len(left) > 1:  # the outermost goes inboard until it meets another
        k = max(left)
        left.remove(k)
        left.add(tree.parent[k])
    (k,) = left
    return k, "inboard" if k in bodies else "outboard"
