"""Kernels out: as C without a library, as CasADi functions, as JAX functions; from Python and for the command `catena export`.

A room of its own, and not part of `native/`: what is written here depends on nothing of LLVM or of this machine; and a kernel of a
mechanism with loops, which is several compiled ones and the choice among them, is known only above `native`.

`exported` says what of a kernel goes out, and what cannot. All three start from the graphs: C and JAX from their programs of blocks and
calls (`text`), so that the code of a chain of like bodies does not grow with it, CasADi node by node.
"""

from catena.export.c_source import CSource, export_c
from catena.export.casadi_function import export_casadi
from catena.export.jax_module import export_jax

__all__ = ["CSource", "export_c", "export_casadi", "export_jax"]
