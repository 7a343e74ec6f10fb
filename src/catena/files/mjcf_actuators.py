"""Actuators of MJCF files: those of joints and of fixed tendons whose force is affine in control, length and rate, without a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from catena.files.mjcf_source import Source
from catena.files.xml_reader import LARGEST, Element
from catena.model.builder import Builder

if TYPE_CHECKING:
    from catena.files.mjcf_reader import Reader

#: The elements of actuators.
ELEMENTS = {"general", "motor", "position", "velocity", "intvelocity", "damper", "cylinder", "muscle", "adhesion", "dcmotor", "plugin"}


def in_force(source: Source) -> list[int]:
    """Return the actuators that are switched on in the file."""
    c = source.compiled
    if source.disabled("ACTUATION"):
        return []
    off = int(getattr(c.opt, "disableactuator", 0))
    return [i for i in range(getattr(c, "nactuator", c.nu)) if not (0 <= c.actuator_group[i] < 31 and off >> int(c.actuator_group[i]) & 1)]


def name(source: Source, i: int) -> str:
    """Return the name of an actuator, or its number."""
    return source.name(source.objects.actuator, i) or f"actuator{i}"


def element(source: Source, i: int) -> Element:
    """Return the element of an actuator."""
    return source.element(ELEMENTS, source.name(source.objects.actuator, i), i)


def why_not(source: Source, i: int) -> str:
    """Return why an actuator cannot be one of catena's; nothing for one that can."""
    c, kinds = source.compiled, source.enums("Gain", "Bias", "Dyn")
    gain, bias, state = (int(x[i]) for x in (c.actuator_gaintype, c.actuator_biastype, c.actuator_dyntype))
    if state != kinds[2].none:
        return "with a state"
    if gain not in (kinds[0].fixed, kinds[0].affine) or bias not in (kinds[1].none, kinds[1].affine):
        return "whose force is not affine"
    if _lengths(source, i) is None:
        return "that moves more than hinges, slides and fixed tendons of these"
    for key in ("damping", "dampingpoly", "armature", "delay"):
        entries = getattr(c, f"actuator_{key}", None)
        if entries is not None and np.any(entries[i]):
            return f"with {key}"
    return ""


def acts(source: Source, i: int) -> bool:
    """Return whether an actuator changes the motion without a control."""
    c = source.compiled
    own = ("damping", "dampingpoly", "armature")
    passive = [entries[i] for key in own if (entries := getattr(c, f"actuator_{key}", None)) is not None]
    biased = bool(c.actuator_biastype[i]) and bool(c.actuator_biasprm[i].any())
    return biased or bool(c.actuator_dyntype[i]) or any(map(np.any, passive))


def add(model: Builder, reader: Reader) -> None:
    """Add the actuators of a file to a model."""
    c, affine = reader.compiled, reader.enums("Gain", "Bias")
    chosen, left = in_force(reader), []
    if "actuator" in reader.ignore:
        if chosen and not any(what.startswith("actuator ") for what in reader.left_out):
            reader.left_out.append(f"actuator ({len(chosen)})")
        return
    for i in chosen:
        if reason := why_not(reader, i):
            left.append(f"{name(reader, i)} {reason}")
            continue
        gears = _lengths(reader, i)
        assert gears is not None
        zero = sum(gear * float(c.qpos0[c.jnt_qposadr[joint]]) for joint, gear in gears.items())  # of the length, where q is zero
        gain = _shifted(c.actuator_gainprm[i], int(c.actuator_gaintype[i]) == affine[0].affine, zero)
        bias = _shifted(c.actuator_biasprm[i], True, zero) if int(c.actuator_biastype[i]) == affine[1].affine else (0.0, 0.0, 0.0)
        at = element(reader, i)
        limits = {"force_limits": _limits(c, "force", i)}
        if not reader.disabled("CLAMPCTRL"):
            limits["control_limits"] = _limits(c, "ctrl", i)
        for numbers in (gain, bias, [*gears.values()], *(pair for pair in limits.values() if pair is not None)):
            if not (np.abs(numbers) <= LARGEST).all():
                at.fail(f"a number is not finite, or goes beyond {LARGEST:g}; give finite numbers")
        by = {reader.carriers[joint]: gear for joint, gear in gears.items() if gear}
        if by:
            at.build(model.add_actuator, name(reader, i), by, gain=gain, bias=bias, **limits)
    if model.actuators:
        model.parts.notes.append(
            f"{len(model.actuators)} actuators act where controls are given, by ct.simulate(m, q0, until=…, controls=\"hold\") or "
            "ct.stepper(m, step, controls=True); kernels take joint forces tau"
        )
    if left:
        more = f" and {len(left) - 3} more" if left[3:] else ""
        model.parts.notes.append(f"actuators that are not in the model, give their joint forces as tau: {', '.join(left[:3])}{more}")


def _lengths(source: Source, i: int) -> dict[int, float] | None:
    """Return the gears of the joints whose positions make the length of an actuator; None where these are not hinges and slides."""
    c, (kinds, wraps) = source.compiled, source.enums("Trn", "Wrap")
    kind, of, gear = int(c.actuator_trntype[i]), int(c.actuator_trnid[i, 0]), float(c.actuator_gear[i, 0])
    if kind in (kinds.joint, kinds.jointinparent):
        found = {of: gear}
    elif kind == kinds.tendon:
        parts = range(c.tendon_adr[of], c.tendon_adr[of] + c.tendon_num[of])
        limited = getattr(c, "tendon_actfrclimited", None)
        if any(c.wrap_type[k] != wraps.joint for k in parts) or (limited is not None and limited[of]):
            return None
        found = {}
        for k in parts:
            found[int(c.wrap_objid[k])] = found.get(int(c.wrap_objid[k]), 0.0) + gear * float(c.wrap_prm[k])
    else:
        return None
    plain = (source.joint_kinds.hinge, source.joint_kinds.slide)
    return found if all(c.jnt_type[joint] in plain for joint in found) else None


def _shifted(numbers: Any, affine: bool, zero: float) -> tuple[float, float, float]:
    """Return a constant and factors of length and rate, of a length that counts from `zero`."""
    constant, by_length, by_rate = (float(x) for x in numbers[:3])
    return (constant + by_length * zero, by_length, by_rate) if affine else (constant, 0.0, 0.0)


def _limits(c: Any, what: str, i: int) -> tuple[float, float] | None:
    limited, pairs = getattr(c, f"actuator_{what}limited"), getattr(c, f"actuator_{what}range")
    at = int(c.actuator_ctrladr[i]) if what == "ctrl" and hasattr(c, "actuator_ctrladr") else i
    return (float(pairs[at, 0]), float(pairs[at, 1])) if limited[at] else None
