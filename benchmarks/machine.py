"""How benchmarks measure: in turns, in new processes, and beside what the machine can do at best."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from catena import comparison


def fastest(functions: dict[str, Callable[[], object]], seconds: float = 1.5, least: int = 5) -> dict[str, float]:
    """Return the shortest run of each function [s]; they take turns for `seconds` in all."""
    return comparison.fastest(functions, seconds / len(functions), least)


def in_new_process(code: str, cache: str) -> Any:
    """Return what code prints last, as JSON, in a process of its own that keeps compiled kernels in a folder."""
    environment = {**os.environ, "CATENA_CACHE_DIR": cache}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def vector_operations(lanes: int) -> Callable[[int], None]:
    """Return a function that issues 12 independent vector multiply-adds, n times over: the machine's vector-issue limit."""
    vector = f"<{lanes} x double>"
    streams = range(12)
    half = f"<{', '.join(['double 5.0e-1'] * lanes)}>"
    start = "\n".join(f"  %x{i}.0 = insertelement {vector} {half}, double {1.0 + i / 16.0!r}, i32 0" for i in streams)
    phis = "\n".join(f"  %x{i} = phi {vector} [ %x{i}.0, %entry ], [ %y{i}, %loop ]" for i in streams)
    steps = "\n".join(f"  %y{i} = call {vector} @llvm.fma.v{lanes}f64({vector} %x{i}, {vector} {half}, {vector} {half})" for i in streams)
    stores = "\n".join(f"  store volatile {vector} %y{i}, ptr %sink" for i in streams)
    source = f"""
declare {vector} @llvm.fma.v{lanes}f64({vector}, {vector}, {vector})
define void @stream(i64 %count) {{
entry:
  %sink = alloca {vector}, align 64
{start}
  br label %loop
loop:
  %n = phi i64 [ 0, %entry ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %n, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
{stores}
  ret void
}}
"""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(source)
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
    engine = llvm.create_mcjit_compiler(module, target)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, ctypes.c_int64)(engine.get_function_address("stream"))

    def run(count: int) -> None:
        assert engine is not None  # keeps the machine code alive
        function(count)

    return run


def vector_rate(lanes: int) -> Callable[[], float]:
    """Return a function that measures independent vector multiply-adds per second."""
    stream = vector_operations(lanes)

    def measure() -> float:
        begin = time.perf_counter()
        stream(100_000)
        return 12 * 100_000 / (time.perf_counter() - begin)

    return measure
