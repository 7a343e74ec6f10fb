"""Kernels as C99 that stands alone: no library but <math.h>, no memory but what the caller gives.

A block that is called once has its places and numbers in the code; one that is called more often takes them from tables, and calls that
follow each other in a pattern are a loop. Where a graph is small it is one block, which reads the arguments themselves.

With loops there is a function for each plan. They are tried in turn, as by the kernel here, until one holds the loops well; but a plan
cannot be made for a state, so that the last one's flags are returned.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from catena.atomic_files import as_path, replacing
from catena.errors import ExportError
from catena.export.exported import FLAGS, REFUSED, Exported, argument_names, exported
from catena.export.text import Step, Syntax, Table, program, statements, tabulated
from catena.graph import OPERATIONS, Port, Program

#: Columns of the text.
COLUMNS = 120

C = Syntax(
    value="const double {0} = {1};",
    truth="const int {0} = {1};",
    operations={name: operation.c for name, operation in OPERATIONS.items()},
    to_value="(double){0}",
    to_truth="({0} != 0.0)",
    infinity="INFINITY",
    not_a_number="NAN",
)

#: Names in the code that no argument may have.
_RESERVED = ("workspace", "found", "i", *(form.split("(")[0] for form in C.operations.values() if form[0].isalpha()))

# here and below @ stands for the name of the export
_EXTREMUM = """
static double {0}(double a, double b)
{{
    return a {1} b ? a : b {1}= a ? b : a + b; /* the sum where one is not a number */
}}
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


def export_c(kernel: Any, folder: str | os.PathLike[str] | None = None, *, name: str | None = None, plans: int | None = None) -> CSource:
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
        self.inputs = argument_names(out.inputs, _RESERVED)
        self.outputs = argument_names(out.outputs, (*self.inputs, *_RESERVED))
        self.programs = [program(graph) for graph in out.graphs]
        self.tables, self.steps = tabulated(self.programs)
        rooms = [1 if _direct(one) else one.slots for one in self.programs]
        self.workspace = max(1, *rooms)
        self.index = "unsigned short" if self.workspace < 2**16 else "unsigned int"

    def written(self) -> CSource:
        out, body = self.out, "".join(self._functions())
        helpers = [_EXTREMUM.format(*helper) for helper in (("@_smaller", "<"), ("@_larger", ">")) if f"{helper[0]}(" in body]
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
        inside = {steps[0].tables[0] for steps, one in zip(self.steps, self.programs, strict=True) if _direct(one)}
        functions = [self._block(k, table) for k, table in enumerate(self.tables) if k not in inside]
        if len(self.programs) == 1:
            return [*functions, self._function(0, "int @")]
        plans = [f"@_plan{k}" for k in range(len(self.programs))]
        functions += [self._function(k, f"static int {plan}") for k, plan in enumerate(plans)]
        calls = [_call(plan, [*self.inputs, *self.outputs, "workspace"]) for plan in plans]
        tries = "".join(f"    if (found && !(found & {REFUSED}))\n        found = {call};\n" for call in calls[1:])
        return [*functions, f"\n{self._signature('int @')}\n{{\n    int found = {calls[0]};\n{tries}    return found;\n}}\n"]

    def _function(self, k: int, name: str) -> str:
        tables, lines, flags = self._in_place(k) if _direct(self.programs[k]) else self._in_workspace(k)
        lines = [*(f"(void){x};" for port, x, _ in self._ports() if not port.size), *lines]
        body = "".join(f"    {line}\n" for line in (*lines, f"return {f'(int)({flags})' if self.out.flagged else '0'};"))
        counter = "    int i;\n" if "for (i = " in body else ""
        return f"{tables}\n{self._signature(name)}\n{{\n{counter}{body}}}\n"

    def _in_place(self, k: int) -> tuple[str, list[str], str]:
        """Return tables, statements and flags of a program whose single block reads the arguments and writes the results themselves."""
        one, block = self.programs[k], self.tables[self.steps[k][0].tables[0]].block
        (call,) = one.calls
        arguments = [f"{x}[{i}]" if port.shape else x for port, x, reads in self._ports() if reads for i in range(port.size)]
        computed, expressions = statements(block, C, [arguments[slot] for slot in call.reads], [])
        value = dict(enumerate(arguments)) | dict(zip(call.writes, expressions, strict=True))
        values = [value[slot] for slot in one.outputs]
        used = {*call.reads, *one.outputs}
        unused = [x for port, x, first in self._counted(self.out.inputs, self.inputs) if used.isdisjoint(range(first, first + port.size))]
        results = [f"{x}[{i}]" for port, x, reads in self._ports() if not reads for i in range(port.size)]
        written = [f"{x} = {value};" for x, value in zip(results, values, strict=not self.out.flagged)]
        return "", [*(f"(void){x};" for x in unused), "(void)workspace;", *computed, *written], values[-1] if values else ""

    def _in_workspace(self, k: int) -> tuple[str, list[str], str]:
        """Return tables, statements and flags of a program whose calls work in the workspace."""
        outputs, lines = self.programs[k].outputs, []
        for port, x, first in self._counted(self.out.inputs, self.inputs):
            entry = f"    workspace[{f'{first} + ' if first else ''}i] = {x}[i];"
            lines += [f"for (i = 0; i < {port.size}; i++)", entry] if port.shape else [f"workspace[{first}] = {x};"]
        lines += chain.from_iterable(map(self._step, self.steps[k]))
        for port, x, first in self._counted(self.out.outputs, self.outputs):
            lines += [f"for (i = 0; i < {port.size}; i++)", f"    {x}[i] = workspace[@_results{k}[0][{f'{first} + ' if first else ''}i]];"]
        tables = _table(self.index, f"@_results{k}", [list(map(str, outputs))]) if outputs else ""
        return tables, lines, f"workspace[@_results{k}[0][{sum(port.size for port in self.out.outputs)}]]"

    @staticmethod
    def _counted(ports: Sequence[Port], names: Sequence[str]) -> list[tuple[Port, str, int]]:
        """Return the arguments that have entries, and how many entries are before each."""
        firsts = accumulate((port.size for port in ports), initial=0)
        return [(port, name, first) for port, name, first in zip(ports, names, firsts, strict=False) if port.size]

    def _step(self, step: Step) -> list[str]:
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
        block, head = table.block, ""
        if table.elimination is not None:
            tree = zip(table.elimination.starts, table.elimination.depth, (max(0, up) for up in table.elimination.parent), strict=True)
            rows = _table(self.index, f"@_rows{number}", [list(map(str, table.calls[0].reads))])
            return rows + _table(self.index, f"@_tree{number}", [list(map(str, row)) for row in tree])
        if len(table.calls) == 1:
            (call,) = table.calls
            reads, writes = ([f"workspace[{slot}]" for slot in slots] for slots in (call.reads, call.writes))
            numbers = [C.number(x) for x in call.numbers]
            signature = f"static void @_block{number}(double *workspace)"
            lines: list[str] = []
        else:
            head = _table(self.index, f"@_places{number}", table.places)
            if block.numbers:
                head += _table("double", f"@_numbers{number}", [list(map(C.number, call.numbers)) for call in table.calls])
            reads = [f"workspace[places[{i}]]" for i in range(block.inputs)]
            writes = [f"results{n}[{i}]" for n, (start, stop) in enumerate(block.runs) for i in range(stop - start)]
            numbers = [f"numbers[{i}]" for i in range(block.numbers)]
            takes = ["double *workspace", f"const {self.index} *places", *(["const double *numbers"] if numbers else [])]
            signature = f"static void @_block{number}({', '.join(takes)})"
            lines = [f"double *results{n} = workspace + places[{block.inputs + n}];" for n in range(len(block.starts))]
        names = [f"in{i}" for i in range(block.inputs)]  # all is read before anything is written
        lines += [f"const double {x} = {read};" for x, read in zip(names, reads, strict=True)]
        computed, values = statements(block, C, names, numbers)
        lines += [*computed, *(f"{x} = {value};" for x, value in zip(writes, values, strict=True))]
        body = "".join(f"    {line}\n" for line in lines)
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
