"""Turns LLVM IR into machine code that can be called: the host processor, the optimiser, and two caches.

Machine code is made once for a text. What a kernel in this process uses is in memory, under the key of its text, for as long as it is used
(`_in_memory`); and it is on disk, for later processes (`object_cache`). `compiled` asks one, then the other, and only then LLVM.
"""

from __future__ import annotations

import atexit
import contextlib
import time
import weakref
from functools import cache
from typing import Any, NamedTuple

from catena.errors import CompileError
from catena.locks import forks_wait_for, lock
from catena.native.llvm import object_cache as disk

#: Streams run together where their scratch memories take no more than this [bytes]; beyond, one alone finds more of its own in the caches.
#: Measured on chains: with 3,000 bodies, 5 MB, two are 4 % faster, with 10,000, 17 MB, 3 % slower.
TOGETHER = 8 << 20


class Host(NamedTuple):
    """The processor that kernels are compiled for."""

    triple: str
    processor: str
    features: str
    x86: bool
    lanes: int
    streams: int

    def streams_of(self, slots: int) -> int:
        """Return how many groups of lanes run together, if each needs so many slots."""
        return self.streams if self.streams * slots * 8 * self.lanes <= TOGETHER else 1


@cache
def host() -> Host:
    """Return the processor this runs on, and how kernels use it.

    A value is one vector register of `lanes` doubles. In a batch each block of code runs for `streams` groups of lanes in turn, before the
    next block: the processor overlaps the end of one group with the start of the other. Two registers per value would do so too, but spill.
    """
    triple = _llvm().get_process_triple()
    features = _llvm().get_host_cpu_features()
    x86 = triple.startswith(("x86_64", "amd64"))
    lanes = 8 if features.get("avx512f") else 4 if features.get("avx2") else 2
    return Host(triple, _llvm().get_host_cpu_name(), features.flatten(), x86, lanes, streams=2)


class Code:
    """Machine code in memory, alive as long as this object, and the addresses of its functions."""

    def __init__(self, engine: Any, names: tuple[str, ...]) -> None:
        self._engine = engine
        self.addresses: dict[str, int] = {name: engine.get_function_address(name) for name in names}
        if not all(self.addresses.values()):
            raise CompileError(f"the machine code lacks one of {', '.join(names)}")


# LLVM's global state and the tables below change under this lock only
_lock = lock()
_in_memory: weakref.WeakValueDictionary[str, Code] = weakref.WeakValueDictionary()


@cache
def _llvm() -> Any:
    """Return the library LLVM; it is imported here, because `import catena` does not wait for it."""
    from llvmlite import binding

    # that of llvmlite is held by threads that free machine code, too; those that compile take it under ours
    forks_wait_for(_lock, binding.ffi.lib._lock._lock)
    # another thread ends what it compiles before the interpreter ends, which LLVM would not survive; and begins nothing else
    atexit.register(_lock.acquire)
    return binding


def _versions() -> tuple[str, str]:
    """Return the versions that machine code depends on: of LLVM, and of the package that it comes in."""
    from llvmlite import __version__

    return str(_llvm().llvm_version_info), __version__


@cache
def _target(triple: str) -> Any:
    _llvm().initialize_native_target()
    _llvm().initialize_native_asmprinter()
    return _llvm().Target.from_triple(triple)


def _target_machine(quick: bool = False) -> Any:
    # the default code model of the JIT: any distance between code and data is right
    this = host()
    return _target(this.triple).create_target_machine(cpu=this.processor, features=this.features, opt=0 if quick else 2, jit=True)


def _optimised(text: str, target_machine: Any, straight: bool = False) -> Any:
    module = _llvm().parse_assembly(text)
    module.triple = target_machine.triple
    module.data_layout = str(target_machine.target_data)
    # straight-line code in vectors leaves little to improve: a higher level doubles the time and gives the same speed
    options = _llvm().create_pipeline_tuning_options(speed_level=1)
    options.slp_vectorization = False
    options.loop_vectorization = False
    options.loop_unrolling = False
    builder = _llvm().create_pass_builder(target_machine, options)
    passes = builder.getModulePassManager()
    if straight:  # all that changes straight-line code, as the optimiser does it; what it does to the loop around takes a third of all time
        passes = _llvm().create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_reassociate_pass()
        passes.add_instruction_combine_pass()
        passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)
    return module


def compiled(
    text: str, names: tuple[str, ...], quick: bool = False, straight: bool = False
) -> tuple[Code, dict[str, float], bool]:
    """Return the machine code of IR text, the seconds it took to make, and whether it was found in this process or on disk.

    With `quick` it takes a fifth of the time to make, and code of many operations takes half as long again to run. Of code that is all
    but `straight`, only that part is optimised.
    """
    this = host()
    level = (*(["quick"] if quick else []), *(["straight"] if straight else []))
    key = disk.key(text, this.triple, this.processor, this.features, *_versions(), *level)
    with _lock:
        started = optimised = time.perf_counter()
        code = _in_memory.get(key) or _from_disk(key, names)
        cached = code is not None
        if code is None:
            try:
                target_machine = _target_machine(quick)
                module = _optimised(text, target_machine, straight)
                optimised = time.perf_counter()
                payload = target_machine.emit_object(module)
                code = _loaded(payload, names)
            except RuntimeError as error:
                raise CompileError(f"LLVM {'.'.join(map(str, _llvm().llvm_version_info))} could not compile the kernel: {error}") from error
            disk.store(key, payload)
        _in_memory[key] = code
        return code, {"optimise": optimised - started, "compile": time.perf_counter() - optimised}, cached


def _from_disk(key: str, names: tuple[str, ...]) -> Code | None:
    """Return the machine code that is on disk under a key, if there is any that loads."""
    payload = disk.load(key)
    if payload is not None:
        with contextlib.suppress(RuntimeError):
            return _loaded(payload, names)
    return None


def _loaded(payload: bytes, names: tuple[str, ...]) -> Code:
    # an engine is made of a module, here an empty one
    engine = _llvm().create_mcjit_compiler(_llvm().parse_assembly(""), _target_machine())
    engine.add_object_file(_llvm().ObjectFileRef.from_data(payload))
    engine.finalize_object()
    return Code(engine, names)


def assembly(text: str) -> str:
    """Return the assembly of IR text, compiled anew."""
    with _lock:
        target_machine = _target_machine()
        return target_machine.emit_assembly(_optimised(text, target_machine))
