"""Kernels as C99 that stands alone: no library but <math.h>, no memory but what the caller gives.

A block that is called once has its places and numbers in the code; one that is called more often takes them from tables, and calls that
follow each other in a pattern are a loop. Where a graph is small it is one block, which reads the arguments themselves.

With loops there is a function for each plan. They are tried in turn, as by the kernel here, until one holds the loops well; but a plan
cannot be made for a state, so that the last one's flags are returned.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from catena.atomic import as_path, replacing
from catena.errors import ExportError
from catena.export.exported import FLAGS, REFUSED, Exported, argument_names, exported
from catena.export.text import Step, Syntax, Table, program, statements, tabulated
from catena.graph import Port, Program

#: Columns of the text.
COLUMNS = 120

#: Names in the code that no argument may have.
_OWN = ("workspace", "found", "i", "sin", "cos", "exp", "log", "tanh", "atan2", "sqrt", "fabs")


def _number(x: float) -> str:
    if not math.isfinite(x):
        return "NAN" if math.isnan(x) else "INFINITY" if x > 0.0 else "(-INFINITY)"
    return repr(x) if math.copysign(1.0, x) > 0.0 else f"({x!r})"


C = Syntax(
    value="const double {0} = {1};",
    truth="const int {0} = {1};",
    operations={
        "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "sqrt": "sqrt({0})",
        "sin": "sin({0})", "cos": "cos({0})", "exp": "exp({0})", "log": "log({0})", "tanh": "tanh({0})", "atan2": "atan2({0}, {1})",
        "abs": "fabs({0})", "min": "@_smaller({0}, {1})", "max": "@_larger({0}, {1})", "select": "{0} ? {1} : {2}",
        "lt": "{0} < {1}", "le": "{0} <= {1}", "eq": "{0} == {1}", "and": "{0} && {1}", "or": "{0} || {1}", "not": "!{0}",
    },
    to_value="(double){0}",
    to_truth="({0} != 0.0)",
    number=_number,
)  # fmt: skip

# @ stands for the name of the export
_SMALLER = """
static double @_smaller(double a, double b)
{
    return a < b ? a : b <= a ? b : a + b; /* the sum where one is not a number */
}
"""

_LARGER = """
static double @_larger(double a, double b)
{
    return a > b ? a : b >= a ? b : a + b; /* the sum where one is not a number */
}
"""

_ELIMINATE = """
/* The solution of a symmetric system with the zeros of a tree. A row holds its right-hand side, its entries at the ancestors from
   the root outward, and its diagonal entry; tree holds where each row begins, how many ancestors it has, and its parent. */
static void @_eliminate(double *work, double *path, const @ (*tree)[3], int unknowns)
{
    int i, j, k;
    for (k = unknowns - 1; k >= 0; k--) {
        double *row = work + tree[k][0];
        const int depth = tree[k][1];
        const double inverse = 1.0 / row[depth + 1];
        int ancestor = tree[k][2];
        for (i = depth; i > 0; i--) {
            double *other = work + tree[ancestor][0];
            const double factor = row[i] * inverse;
            for (j = 0; j <= i; j++)
                other[j] -= factor * row[j];
            ancestor = tree[ancestor][2];
        }
        row[depth + 1] = inverse;
    }
    for (k = 0; k < unknowns; k++) {
        double *row = work + tree[k][0];
        const int depth = tree[k][1];
        double sum = row[0];
        for (j = 0; j < depth; j++)
            sum -= row[j + 1] * path[j];
        row[0] = path[depth] = sum * row[depth + 1];
    }
}
"""


@dataclass(frozen=True)
class CSource:
    """A kernel in C: the text of its header and of its source file, and how many numbers its workspace has.

    >>> m = ct.Model("slider")
    >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
    >>> code = ct.export_c(ct.momenta(m))
    >>> code.name, code.workspace
    ('slider_momenta', 1)
    >>> "p[0] = v[0] * 2.0;" in code.source
    True
    """

    name: str
    header: str
    source: str
    workspace: int

    def __repr__(self) -> str:
        return f"<CSource {self.name}: {len(self.source.splitlines()):,} lines, workspace {self.workspace:,}>"

    def save(self, folder: str | os.PathLike[str] = ".") -> tuple[Path, Path]:
        """Write header and source to a folder, in place of what they may hold, and return their paths."""
        place = as_path(folder, ExportError)
        header, source = place / f"{self.name}.h", place / f"{self.name}.c"
        with replacing(header, ExportError) as stream, replacing(source, ExportError) as other:
            stream.write(self.header.encode())
            other.write(self.source.encode())
        return header, source


def export_c(
    kernel: Any, folder: str | os.PathLike[str] | None = None, *, name: str | None = None, plans: int | None = None
) -> CSource:
    """Return a kernel as C99 that stands alone, and write it to a folder, if one is given, as `name.h` and `name.c`.

    The header tells sizes, layout and names of all arguments. Without a name it is made of the model and the kernel. With loops the plans
    that the kernel knows are tried in turn, at most so many as `plans`, and the function returns flags where none of them is good.

    >>> m = ct.Model("pendulum")
    >>> m.add("arm", ct.point_mass(1.0, at=(1, 0, 0)), ct.Revolute("y"))
    >>> code = ct.export_c(ct.forward_dynamics(m))
    >>> code
    <CSource pendulum_forward_dynamics: 13 lines, workspace 1>
    >>> print(code.header.splitlines()[-7])
    int pendulum_forward_dynamics(const double *q, const double *v, const double *tau, double *vdot, double *workspace);
    """
    out = exported(kernel, name, plans)
    written = _Writer(out).written()
    if folder is not None:
        written.save(folder)
    return written


class _Writer:
    """Writes a kernel: `inputs` and `outputs` are the names of its arguments, `tables` the blocks and their calls."""

    def __init__(self, out: Exported) -> None:
        self.out = out
        self.inputs = argument_names(out.inputs, _OWN)
        self.outputs = argument_names(out.outputs, (*self.inputs, *_OWN))
        self.programs = [program(graph) for graph in out.graphs]
        self.tables, self.steps = tabulated(self.programs)
        rooms = [1 if _direct(one) else one.slots for one in self.programs]
        self.workspace = max(1, *rooms)
        self.index = "unsigned short" if self.workspace < 2**16 else "unsigned int"

    def written(self) -> CSource:
        """Return header and source."""
        out, body = self.out, "".join(self._functions())
        helpers = [text for text, known in ((_SMALLER, "@_smaller("), (_LARGER, "@_larger(")) if known in body]
        if any(table.elimination for table in self.tables):
            helpers.append(_ELIMINATE.replace("const @ ", f"const {self.index} "))
        head = f'/* {_comment(f"{out.name}: {out.title}. {out.origin}")} */\n\n#include "{out.name}.h"\n\n#include <math.h>\n'
        return CSource(out.name, self._header(), head + "".join((*helpers, body)).replace("@", out.name), self.workspace)

    def _ports(self) -> list[tuple[Port, str, bool]]:
        """Return all arguments but the workspace: port, name, and whether it is read."""
        inputs = [(port, name, True) for port, name in zip(self.out.inputs, self.inputs, strict=True)]
        return inputs + [(port, name, False) for port, name in zip(self.out.outputs, self.outputs, strict=True)]

    def _header(self) -> str:
        out, macro, ports = self.out, self.out.name.upper(), self._ports()
        width = max(len("workspace"), *(len(name) for _, name, _ in ports))
        lines = [*_folded(f"{out.name}: {out.title}."), "", f"{out.origin} Units are SI. Matrices are stored row by row.", ""]
        for port, name, reads in ports:
            shape = " x ".join(map(str, port.shape)) or "1"
            entries = ", ".join(out.labels.get(port.name, ()))
            lines += _folded(entries, f"  {name:<{width}}  {'in ' if reads else 'out'}  {shape:<8}  ")
        lines += [f"  {'workspace':<{width}}       {self.workspace:<8}  scratch memory, which need not be set; one for each thread"]
        lines += ["", "Results must not overlap arguments.", ""]
        macros = [(f"{name.upper()}_SIZE {port.size}", "") for port, name, _ in ports] + [(f"WORKSPACE {self.workspace}", "")]
        if out.flagged:
            tried = "One plan holds" if len(out.graphs) == 1 else f"{len(out.graphs)} plans are tried in turn to hold"
            lines.append(f"It returns 0, or where the results are not to be trusted the sum of the flags below. {tried} the loops.")
            macros += [(f"{flag} {value}", f" /* {words} */") for flag, (value, words) in FLAGS.items()]
        else:
            lines.append("It returns 0.")
        text = "\n".join(f" * {line}".rstrip() for line in lines)
        defined = "\n".join(f"#define {macro}_{name}{words}" for name, words in macros)
        return (
            f"/*\n{text}\n */\n#ifndef {macro}_H\n#define {macro}_H\n\n{defined}\n\n"
            f'#ifdef __cplusplus\nextern "C" {{\n#endif\n\n{self._signature(f"int {out.name}")};\n\n'
            f"#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
        )

    def _signature(self, name: str) -> str:
        takes = [("const double *" if port.shape else "double ") + x for port, x in zip(self.out.inputs, self.inputs, strict=True)]
        return _call(name, [*takes, *(f"double *{x}" for x in self.outputs), "double *workspace"])

    # the source; @ stands for the name of the export

    def _functions(self) -> list[str]:
        """Return all tables and functions."""
        inside = {steps[0].tables[0] for steps, one in zip(self.steps, self.programs, strict=True) if _direct(one)}
        found = [self._block(k, table) for k, table in enumerate(self.tables) if k not in inside]
        if len(self.programs) == 1:
            return [*found, self._function(0, "int @")]
        plans = [f"@_plan{k}" for k in range(len(self.programs))]
        found += [self._function(k, f"static int {plan}") for k, plan in enumerate(plans)]
        calls = [_call(plan, [*self.inputs, *self.outputs, "workspace"]) for plan in plans]
        tries = "".join(f"    if (found && !(found & {REFUSED}))\n        found = {call};\n" for call in calls[1:])
        return [*found, f"\n{self._signature('int @')}\n{{\n    int found = {calls[0]};\n{tries}    return found;\n}}\n"]

    def _function(self, k: int, name: str) -> str:
        """Return the function of program k."""
        one, flagged = self.programs[k], self.out.flagged
        tables, lines = "", [f"(void){name};" for port, name, _ in self._ports() if not port.size]
        if _direct(one):
            (call,) = one.calls
            arguments = [f"{x}[{i}]" if port.shape else x for port, x, reads in self._ports() if reads for i in range(port.size)]
            own, values = statements(self.tables[self.steps[k][0].tables[0]].block, C, [arguments[slot] for slot in call.reads], [])
            place = dict(zip(call.writes, values, strict=True))
            found = [place[slot] if slot in place else arguments[slot] for slot in one.outputs]
            read, first = {*call.reads, *one.outputs}, 0
            for port, x in zip(self.out.inputs, self.inputs, strict=True):
                lines += [f"(void){x};"] if port.size and read.isdisjoint(range(first, first + port.size)) else []
                first += port.size
            results = [f"{x}[{i}]" for port, x, reads in self._ports() if not reads for i in range(port.size)]
            lines += ["(void)workspace;", *own, *(f"{x} = {value};" for x, value in zip(results, found, strict=not flagged))]
            flags = found[-1] if found else ""
        else:
            first = 0
            for port, x in zip(self.out.inputs, self.inputs, strict=True):
                entry = f"    workspace[{f'{first} + ' if first else ''}i] = {x}[i];"
                lines += [f"for (i = 0; i < {port.size}; i++)", entry] if port.shape and port.size else []
                lines += [] if port.shape else [f"workspace[{first}] = {x};"]
                first += port.size
            lines += chain.from_iterable(map(self._step, self.steps[k]))
            tables = _table(self.index, f"@_results{k}", [list(map(str, one.outputs))]) if one.outputs else ""
            first = 0
            for port, x in zip(self.out.outputs, self.outputs, strict=True):
                entry = f"    {x}[i] = workspace[@_results{k}[0][{f'{first} + ' if first else ''}i]];"
                lines += [f"for (i = 0; i < {port.size}; i++)", entry] if port.size else []
                first += port.size
            flags = f"workspace[@_results{k}[0][{first}]]"
        body = "".join(f"    {line}\n" for line in (*lines, f"return {f'(int)({flags})' if flagged else '0'};"))
        counter = "    int i;\n" if "for (i = " in body else ""
        return f"{tables}\n{self._signature(name)}\n{{\n{counter}{body}}}\n"

    def _step(self, step: Step) -> list[str]:
        """Return the calls of a step."""
        which = [str(first) if step.times == 1 else f"{first} + i" if first else "i" for first in step.first]
        lines = list(chain.from_iterable(map(self._called, step.tables, which)))
        if step.times == 1:
            return lines
        return [f"for (i = 0; i < {step.times}; i++) {{", *(f"    {line}" for line in lines), "}"]

    def _called(self, number: int, which: str) -> list[str]:
        """Return the call of a block, with a row of its tables."""
        table = self.tables[number]
        if table.elimination is not None:
            work, size = table.calls[0].writes[0], table.elimination.size
            return [
                f"for (i = 0; i < {size}; i++)",
                f"    workspace[{work} + i] = workspace[@_rows{number}[0][i]];",
                f"@_eliminate(workspace + {work}, workspace + {work + size}, @_tree{number}, {len(table.elimination.parent)});",
            ]
        if len(table.calls) == 1:
            return [f"@_block{number}(workspace);"]
        numbers = [f"@_numbers{number}[{which}]"] if table.block.numbers else []
        return [f"@_block{number}({', '.join(('workspace', f'@_places{number}[{which}]', *numbers))});"]

    def _block(self, number: int, table: Table) -> str:
        """Return the function of a block, and the tables of its calls."""
        block, head = table.block, ""
        if table.elimination is not None:
            tree = zip(table.elimination.starts, table.elimination.depth, (max(0, up) for up in table.elimination.parent), strict=True)
            rows = _table(self.index, f"@_rows{number}", [list(map(str, table.calls[0].reads))])
            return rows + _table(self.index, f"@_tree{number}", [list(map(str, row)) for row in tree])
        if len(table.calls) == 1:
            (call,) = table.calls
            reads, writes = ([f"workspace[{slot}]" for slot in slots] for slots in (call.reads, call.writes))
            numbers = [_number(x) for x in call.numbers]
            signature = f"static void @_block{number}(double *workspace)"
            lines: list[str] = []
        else:
            head = _table(self.index, f"@_places{number}", [[*map(str, call.reads), str(call.writes[0])] for call in table.calls])
            if block.numbers:
                head += _table("double", f"@_numbers{number}", [list(map(_number, call.numbers)) for call in table.calls])
            reads, writes = [f"workspace[places[{i}]]" for i in range(block.inputs)], [f"results[{i}]" for i in range(len(block.results))]
            numbers = [f"numbers[{i}]" for i in range(block.numbers)]
            takes = ["double *workspace", f"const {self.index} *places", *(["const double *numbers"] if numbers else [])]
            signature = f"static void @_block{number}({', '.join(takes)})"
            lines = [f"double *results = workspace + places[{block.inputs}];"]
        names = [f"in{i}" for i in range(block.inputs)]  # all is read before anything is written
        lines += [f"const double {x} = {read};" for x, read in zip(names, reads, strict=True)]
        own, values = statements(block, C, names, numbers)
        body = "".join(f"    {line}\n" for line in (*lines, *own, *(f"{x} = {value};" for x, value in zip(writes, values, strict=True))))
        return f"{head}\n{signature}\n{{\n{body}}}\n"


def _direct(one: Program) -> bool:
    """Return whether a program is a single block, which can read the arguments themselves."""
    return len(one.calls) == 1 and one.calls[0].system is None and not one.calls[0].numbers


def _call(name: str, arguments: Sequence[str]) -> str:
    """Return a call or a declaration, on several lines where it is long."""
    return "\n".join(textwrap.wrap(f"{name}({', '.join(arguments)})", COLUMNS, subsequent_indent=" " * 8, break_long_words=False))


def _table(kind: str, name: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a constant table of rows of one length."""
    wide = {"width": COLUMNS, "initial_indent": "    ", "subsequent_indent": "     "}
    entries = ",\n".join("\n".join(textwrap.wrap(f"{{{', '.join(row)}}}", **wide)) for row in rows)
    return f"\nstatic const {kind} {name}[{len(rows)}][{len(rows[0])}] = {{\n{entries}\n}};\n"


def _folded(text: str, before: str = "") -> list[str]:
    """Return a text of a comment on as many lines as it takes, beside what stands before it."""
    folded = textwrap.wrap(_comment(text), COLUMNS - 3, initial_indent=before, subsequent_indent=" " * len(before))
    return folded or [before.rstrip()]


def _comment(text: str) -> str:
    """Return a text that ends no comment and begins none."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")
