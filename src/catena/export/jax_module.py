"""Kernels as JAX functions: a Python module that needs JAX and NumPy only, and what it defines.

The values of a program stand in one array; a call of a block takes some of them, and puts others in. Calls that follow each other in a
pattern are a `scan` over the rows of their tables, so that what JAX compiles does not grow with a chain of like bodies.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from itertools import chain
from typing import Any

from catena.atomic_files import as_path, replacing
from catena.errors import ExportError
from catena.export.exported import FLAGS, REFUSED, Exported, argument_names, exported, package
from catena.export.text import Step, Syntax, Table, program, statements, tabulated
from catena.graph import OPERATIONS, Port, Program

#: Columns of the text.
COLUMNS = 120

JAX = Syntax(
    value="{0} = {1}",
    truth="{0} = {1}",
    operations={name: operation.jax for name, operation in OPERATIONS.items()},
    to_value="jnp.where({0}, 1.0, 0.0)",
    to_truth="({0} != 0.0)",
    infinity="jnp.inf",
    not_a_number="jnp.nan",
)

_HEAD = '''import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _start(shapes, arguments, slots):
    """Return the arguments in the first slots of an array."""
    if not jax.config.jax_enable_x64:
        raise RuntimeError("@ computes in double precision; call jax.config.update('jax_enable_x64', True) before")
    flat = []
    for (name, shape), argument in zip(shapes.items(), arguments):
        array = jnp.asarray(argument, dtype=float)
        if array.shape != shape:
            raise ValueError(f"@: {name} has shape {array.shape}, and takes {shape}; batches go through jax.vmap")
        flat.append(array.ravel())
    flat.append(jnp.zeros(slots - sum(len(x) for x in flat)))
    return jnp.concatenate(flat)


def _called(w, block, places, numbers):
    """Return the slots after a call: the last of the places are where its results go to."""
    results = block(w[places], numbers)
    for result, place in zip(results, places[-len(results):]):
        w = lax.dynamic_update_slice(w, result, (place,))
    return w


def _repeated(w, *parts):
    """Return the slots after calls of blocks in turn, as often as their tables have rows."""
    blocks = [block for block, _, _ in parts]

    def step(w, rows):
        for block, (places, numbers) in zip(blocks, rows):
            w = _called(w, block, places, numbers)
        return w, None

    return lax.scan(step, w, [(places, numbers) for _, places, numbers in parts])[0]
'''

_ELIMINATED = '''

def _eliminated(w, reads, rows, columns, right, first):
    """Return the slots after a symmetric system is solved: lower triangle by rows and columns, right-hand sides."""
    x = w[reads]
    lower = jnp.zeros((len(right), len(right))).at[rows, columns].set(x[np.delete(np.arange(len(reads)), right)])
    whole = jnp.tril(lower) + jnp.tril(lower, -1).T
    return w.at[first + right].set(jax.scipy.linalg.solve(whole, x[right], assume_a="pos"))
'''

_TRIED = '''

def _tried(found, plan, arguments):
    """Return what a plan gives where the ones before are weak, else what they found."""
    flags = found[-1].astype(int)
    return lax.cond((flags > 0) & ((flags & {refused}) == 0), lambda: plan(*arguments), lambda: found)
'''


def export_jax(kernel: Any, folder: str | os.PathLike[str] | None = None, *, name: str | None = None, plans: int | None = None) -> Any:
    """Return a kernel as a JAX function of one state, and write it to a folder, if one is given, as the module `name.py`.

    It has the kernel's arguments and can be passed to `jax.jit`, `jax.vmap`, `jax.grad` and the like; the module needs JAX and NumPy only.
    With loops a further result, the flags, is 0 where the others are to be trusted; the plans that the kernel knows are tried in turn, at
    most so many as `plans`. Needs the package jax, in double precision: `jax.config.update("jax_enable_x64", True)`.

    >>> import jax
    >>> jax.config.update("jax_enable_x64", True)
    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> forward = ct.export_jax(ct.forward_dynamics(m))
    >>> [float(x) for x in jax.jit(forward)(np.zeros(1), np.zeros(1), np.zeros(1))]
    [9.81]
    """
    package("jax")
    out = exported(kernel, name, plans)
    text = _Writer(out).module()
    namespace: dict[str, Any] = {"__name__": out.name}
    exec(compile(text, f"<{out.name}, exported>", "exec"), namespace)
    if folder is not None:
        with replacing(as_path(folder, ExportError) / f"{out.name}.py", ExportError) as stream:
            stream.write(text.encode())
    return namespace[out.name]


class _Writer:
    def __init__(self, out: Exported) -> None:
        self.out = out
        self.inputs = argument_names(out.inputs)
        self.programs = [program(graph) for graph in out.graphs]
        self.tables, self.steps = tabulated(self.programs)

    def module(self) -> str:
        out = self.out
        title = _plain(out.title[:1].upper() + out.title[1:])
        parts = [f'"""{title}.\n\n{out.origin} Needs JAX and NumPy.\n"""\n\n', _HEAD.replace("@", out.name)]
        parts += [_ELIMINATED] if any(table.elimination for table in self.tables) else []
        parts += [self._block(k, table) for k, table in enumerate(self.tables)]
        names = [f"_plan{k}" for k in range(len(self.programs))]
        parts += [self._plan(k, name) for k, name in enumerate(names)]
        parts += [_TRIED.replace("{refused}", str(REFUSED))] if len(names) > 1 else []
        arguments = ", ".join(self.inputs)
        tuple_ = f"({arguments}{',' if len(self.inputs) == 1 else ''})"
        lines = [f"found = {names[0]}{tuple_}", *(f"found = _tried(found, {name}, {tuple_})" for name in names[1:])]
        single = len(out.outputs) == 1 and not out.flagged
        text = "".join(f"    {line}\n" for line in (*lines, f"return {'found[0]' if single else 'found'}"))
        parts.append(f"\n\ndef {out.name}({arguments}):\n{self._docstring()}{text}")
        return "".join(parts)

    def _docstring(self) -> str:
        ports: list[tuple[Port, str]] = [(port, "takes") for port in self.out.inputs] + [(port, "returns") for port in self.out.outputs]
        names = [*self.inputs, *(port.name for port in self.out.outputs)]
        lines = [f"{self.out.problem.replace('_', ' ').capitalize()}, of one state.", ""]
        for (port, does), name in zip(ports, names, strict=True):
            entries = ", ".join(self.out.labels.get(port.name, ()))
            lines.append(f"{does} {name} {port.shape}{f': {entries}' if entries else ''}")
        if self.out.flagged:
            meaning = "; ".join(f"{value} {words}" for value, words in FLAGS.values())
            lines.append(f"returns flags, 0 where the results are to be trusted, or a sum: {meaning}")
        folded = [textwrap.wrap(_plain(line), COLUMNS - 4, subsequent_indent="    ") or [""] for line in lines]
        return '    """' + "\n    ".join(chain.from_iterable(folded)).replace("\n    \n", "\n\n") + '\n    """\n'

    def _block(self, number: int, table: Table) -> str:
        if table.elimination is not None:
            return self._system(number, table)
        block = table.block
        places = _array(f"_places{number}", table.places)
        numbers = f"_numbers{number} = np.zeros(({len(table.calls)}, 0))\n"
        if block.numbers:
            numbers = _array(f"_numbers{number}", [[JAX.number(x) for x in call.numbers] for call in table.calls])
        inputs, constants = [f"a{i}" for i in range(block.inputs)], [f"c{i}" for i in range(block.numbers)]
        lines, values = statements(block, JAX, inputs, constants)
        names = [(f"({', '.join(names)},", whole) for names, whole in ((inputs, f"a[:{block.inputs}]"), (constants, "c")) if names]
        unpacked = chain.from_iterable(f"{textwrap.fill(text, COLUMNS - 12)}) = {whole}".split("\n") for text, whole in names)
        runs = chain.from_iterable(("    jnp.stack([", *(f"        {x}," for x in values[a:b]), "    ]),") for a, b in block.runs)
        body = "".join(f"    {line}\n" for line in (*unpacked, *lines, "return (", *runs, ")"))
        return f"\n\n{places}{numbers}\n\ndef _block{number}(a, c):\n{body}"

    def _system(self, number: int, table: Table) -> str:
        elimination = table.elimination
        assert elimination is not None
        (call,) = table.calls
        paths = [[j for j, _ in reversed(elimination.path(k))] for k in range(elimination.entries)]
        rows, columns = [k for k, path in enumerate(paths) for _ in path], list(chain.from_iterable(paths))
        entries = {"reads": call.reads, "rows": rows, "columns": columns, "right": elimination.starts}
        arrays = [_array(f"_{name}{number}", [list(map(str, places))], "[0]") for name, places in entries.items()]
        return f"\n\n{''.join(arrays)}"

    def _plan(self, k: int, name: str) -> str:
        one, graph = self.programs[k], self.out.graphs[k]
        shapes = ", ".join(f"{x!r}: {port.shape}" for port, x in zip(graph.inputs, self.inputs, strict=True))
        arguments = ", ".join(self.inputs)
        lines = [f"w = _start({{{shapes}}}, ({arguments}{',' if self.inputs else ''}), {one.slots})"]
        lines += chain.from_iterable(map(self._step, self.steps[k]))
        body = "".join(f"    {line}\n" for line in (*lines, f"return tuple(w[at] for at in _results{k})"))
        return f"{self._results(k, one)}\n\ndef {name}({arguments}):\n{body}"

    def _results(self, k: int, one: Program) -> str:
        lines, first = [], 0
        for port in self.out.graphs[k].outputs:
            slots = ", ".join(map(str, one.outputs[first : first + port.size]))
            lines += _wrapped(f"np.array([{slots}], dtype=int).reshape({port.shape}),", 4)
            first += port.size
        return "\n".join((f"\n\n_results{k} = (", *lines, ")\n"))

    def _step(self, step: Step) -> list[str]:
        (number, *_), (first, *_) = step.tables, step.first
        if self.tables[number].elimination is not None:
            work = self.tables[number].calls[0].writes[0]
            return [f"w = _eliminated(w, _reads{number}, _rows{number}, _columns{number}, _right{number}, {work})"]
        if step.times == 1:
            return [f"w = _called(w, _block{number}, _places{number}[{first}], _numbers{number}[{first}])"]
        parts = [
            f"    (_block{number}, _places{number}[{first}:{first + step.times}], _numbers{number}[{first}:{first + step.times}]),"
            for number, first in zip(step.tables, step.first, strict=True)
        ]
        return ["w = _repeated(", "    w,", *parts, ")"]


def _array(name: str, rows: Sequence[Sequence[str]], ending: str = "") -> str:
    """Return a table of rows of one length."""
    lines = chain.from_iterable(_wrapped(f"[{', '.join(row)}],", 4) for row in rows)
    return "\n".join((f"{name} = np.array([", *lines, f"]){ending}\n"))


def _wrapped(text: str, indent: int) -> list[str]:
    """Return a long line on several."""
    return textwrap.wrap(text, COLUMNS, initial_indent=" " * indent, subsequent_indent=" " * (indent + 1))


def _plain(text: str) -> str:
    """Return a text that ends no docstring and escapes nothing."""
    return text.replace("\\", "/").replace('"""', "'''")
