"""LLVM: from programs to machine code."""
