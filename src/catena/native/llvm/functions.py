"""The text of the vector functions that LLVM has no instruction for: sine and cosine in registers, the rest lane by lane.

Sine and cosine. The argument is reduced by k quarter turns, r = x - k pi/2, with pi/2 in three parts: the first two have 33 bits, so that
their products with k are exact below 2^20 quarter turns whether or not the machine fuses multiplication and addition; what r loses in
rounding is carried along. On |r| <= pi/4, sin r = r + r^3 S(r^2) and cos r = 1 - r^2/2 + r^4 C(r^2), where S and C interpolate at Chebyshev
points. The error stays below 1.2 units in the last place. Lanes beyond `REACH` (and those that are not finite) take the value of the C
library; the others keep theirs.
"""

from __future__ import annotations

import math

from catena.native.llvm.lines import Lines

#: Largest argument [rad] whose sine and cosine are computed in vector registers: 2^20 quarter turns.
REACH = 1647099.0

#: The numbers of sine and cosine. They come from a table, in this order: so the code has no constants to relocate.
NUMBERS: dict[str, float] = {
    "reach": REACH,
    "quarters": 2.0 / math.pi,
    "round": 1.5 * 2.0**52,  # adding it leaves the nearest integer in the low bits
    "first": float.fromhex("0x1.921fb544p+0"), "second": float.fromhex("0x1.0b4611a6p-34"), "third": float.fromhex("0x1.3198a2e037073p-69"),
    "s0": -0.16666666666666666, "s1": 0.008333333333330948, "s2": -0.00019841269836756774, "s3": 2.7557316101617874e-06,
    "s4": -2.505113165023518e-08, "s5": 1.5918115263265974e-10,
    "c0": 0.041666666666666664, "c1": -0.0013888888888887398, "c2": 2.480158729876456e-05, "c3": -2.7557317271145144e-07,
    "c4": 2.087614614655861e-09, "c5": -1.1382623647474604e-11,
    "minus half": -0.5, "one": 1.0,
}  # fmt: skip


def sincos(lanes: int, numbers: int) -> str:
    """Return the IR of `@sincos(x, data)`, the pair of sine and cosine; entry `numbers` of data points to `NUMBERS`."""
    lines = Lines(lanes)
    new, op, vector, integer = lines.new, lines.op, lines.vector, f"<{lanes} x i64>"
    table = lines.entry("%data", numbers)

    def number(name: str) -> str:
        return new(f"load {vector}, ptr {lines.at(table, list(NUMBERS).index(name))}, align 8, !invariant.load !2")

    def polynomial(z: str, name: str) -> str:
        value = number(f"{name}5")
        for i in (4, 3, 2, 1, 0):
            value = op("fadd", op("fmul", value, z), number(f"{name}{i}"))
        return value

    shifted = op("fadd", op("fmul", "%x", number("quarters")), number("round"))
    k = op("fsub", shifted, number("round"))
    # the reduced argument is r + rest, where rest is what r has lost in rounding
    near = op("fsub", "%x", op("fmul", k, number("first")))
    second = op("fmul", k, number("second"))
    rough = op("fsub", near, second)
    lost = op("fsub", op("fsub", op("fsub", near, rough), second), op("fmul", k, number("third")))
    r = op("fadd", rough, lost)
    rest = op("fadd", op("fsub", rough, r), lost)
    z = op("fmul", r, r)
    sine = op("fadd", op("fadd", op("fmul", op("fmul", r, z), polynomial(z, "s")), rest), r)
    inner = op("fadd", op("fmul", z, polynomial(z, "c")), number("minus half"))
    cosine = op("fadd", op("fsub", op("fmul", z, inner), op("fmul", r, rest)), number("one"))

    # odd quarter turns swap the two, the second bit gives the sign
    def splat(value: int) -> str:
        return "<" + ", ".join([f"i64 {value}"] * lanes) + ">"

    turns = new(f"bitcast {vector} {shifted} to {integer}")
    odd = new(f"icmp slt {integer} {new(f'shl {integer} {turns}, {splat(63)}')}, zeroinitializer")
    after = new(f"sub {integer} {turns}, {splat(-1)}")
    pair = []
    for straight, swapped, quarter in ((sine, cosine, turns), (cosine, sine, after)):
        chosen = new(f"select <{lanes} x i1> {odd}, {vector} {swapped}, {vector} {straight}")
        sign = new(f"and {integer} {new(f'shl {integer} {quarter}, {splat(62)}')}, {splat(-(2**63))}")
        bits = new(f"xor {integer} {new(f'bitcast {vector} {chosen} to {integer}')}, {sign}")
        pair.append(new(f"bitcast {integer} {bits} to {vector}"))
    size = new(f"call {vector} @llvm.fabs.v{lanes}f64({vector} %x)")
    far = new(f"fcmp ugt {vector} {size}, {number('reach')}")
    any_far = new(f"icmp ne i{lanes} {new(f'bitcast <{lanes} x i1> {far} to i{lanes}')}, 0")
    results = [lines.variable(vector, x) for x in pair]

    def call_library() -> None:
        called = [new(f"call {vector} @lanewise(ptr {lines.at('%data', k, 'ptr')}, {vector} %x) cold") for k in range(2)]
        for result, value, x in zip(results, called, pair, strict=True):
            lines.set(vector, result, new(f"select <{lanes} x i1> {far}, {vector} {value}, {vector} {x}"))

    lines.when(any_far, call_library, weights=", !prof !3")
    both, parameters = f"{{ {vector}, {vector} }}", f"({vector} %x, ptr %data)"
    first = new(f"insertvalue {both} poison, {vector} {lines.get(vector, results[0])}, 0")
    second = new(f"insertvalue {both} {first}, {vector} {lines.get(vector, results[1])}, 1")
    inlined = lines.function(f"internal {both} @sincos{parameters}", "alwaysinline nounwind", f"ret {both} {second}")
    once = Lines(lanes)
    pair_once = once.new(f"call {both} @sincos{parameters}")
    return inlined + once.function(f"internal {both} @sincos_once{parameters}", "noinline nounwind", f"ret {both} {pair_once}")


def lanewise(lanes: int, arguments: int) -> str:
    """Return the IR of `@lanewise(entry, x)` (or `@lanewise2(entry, x, y)`): the C function that the entry points to, lane by lane."""
    lines, names = Lines(lanes), ("x", "y")[:arguments]
    function, result = lines.get("ptr", "%entry"), "zeroinitializer"
    for lane in range(lanes):
        call = ", ".join(f"double {lines.new(f'extractelement {lines.vector} %{name}, i32 {lane}')}" for name in names)
        value = lines.new(f"call double {function}({call})")
        result = lines.new(f"insertelement {lines.vector} {result}, double {value}, i32 {lane}")
    parameters = ", ".join(f"{lines.vector} %{name}" for name in names)
    head = f"internal {lines.vector} @lanewise{'' if arguments == 1 else arguments}(ptr %entry, {parameters})"
    return lines.function(head, "noinline nounwind", f"ret {lines.vector} {result}")
