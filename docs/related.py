"""What to look at beside a public name: the other names of its groups, and the page that explains them."""

from __future__ import annotations

#: Names that are used together, or in place of each other; and the page about them.
GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("index", ("Model", "load")),
    ("robots", ("load", "ModelFileError", "ModelError", "InertiaWarning", "LimitWarning")),
    ("overview", ("Body", "Geometry", "Pose", "rod", "box", "cylinder", "sphere", "point_mass")),
    ("overview", ("Revolute", "Prismatic", "Helical", "Cylindrical", "Universal", "Planar", "Spherical", "Free", "Fixed")),
    ("own-parts", ("Custom", "where", "maximum", "minimum", "atan2", "python", "TraceError")),
    ("driven", ("Driven", "Harmonic", "driving_forces")),
    ("loops", ("Distance", "loop_error", "reduced", "Reduced", "SingularWarning", "AssemblyWarning")),
    ("batches", ("Kernel", "forward_dynamics", "inverse_dynamics", "threads", "methods")),
    ("overview", ("forward_dynamics", "inverse_dynamics", "mass_matrix", "bias_force", "energy")),
    ("control", ("bias_force", "gravity_force", "coriolis_force", "passive_force", "coriolis_matrix", "inverse_dynamics")),
    ("canonical-momenta", ("momenta", "velocities", "hamiltonian_dynamics")),
    ("kinematics", ("poses", "frame_velocity", "frame_acceleration", "jacobian", "bias_acceleration")),
    ("kinematics", ("center_of_mass", "centroidal_momentum")),
    ("kinematics", ("inverse_kinematics", "InverseKinematics", "Target", "cartesian_path", "CartesianPath")),
    ("loops", ("joint_wrenches", "reduced", "loop_error")),
    ("parallel-robots", ("ParallelManipulator", "Reduced")),
    ("contact", ("contact_forces", "hull_points", "restitution_of", "dissipation_of")),
    ("composing", ("actuator_forces", "stepper")),
    ("derivatives", ("forward_dynamics_derivatives", "inverse_dynamics_derivatives", "Kernel")),
    ("derivatives", ("linearize", "Linearization", "equilibrium", "Equilibrium", "modes", "Modes", "Mode")),
    ("simulation", ("simulate", "Trajectory", "Event", "Occurrence", "StiffnessWarning", "SimulationError")),
    ("trajectories", ("Trajectory", "TrajectoryFileError")),
    ("view", ("Trajectory", "ViewWarning")),
    ("batches", ("rollout", "Rollout", "ensemble", "stepper")),
    ("optimal-control", ("rollout_gradient", "rollout_sensitivity", "simulate_gradient", "MotionGradient", "MotionSensitivity")),
    ("optimal-control", ("ilqr", "OptimalMotion", "rollout_gradient")),
    ("control", ("Path", "polynomial", "cycloidal", "trapezoidal", "computed_torque", "cartesian_path")),
    ("identification", ("excitation", "FourierPath", "identify", "Identified", "regressor", "base_parameters", "BaseParameters")),
    ("identification", ("linear_parameters", "regressor", "base_parameters")),
    ("unified", ("operators", "Operators", "methods", "MethodError", "ConvergenceWarning")),
    ("export", ("export_c", "CSource", "export_casadi", "export_jax", "ExportError")),
    ("reference/errors", ("CatenaError", "ArgumentError", "ModelError", "CompileError", "MissingPackageError")),
)

#: Names shown at most.
MOST = 6


def related(name: str) -> tuple[list[str], list[str]]:
    """Return the other names of the groups of a name, those of the first group first, and the pages."""
    own = [(page, names) for page, names in GROUPS if name in names]
    others = dict.fromkeys(other for _, names in own for other in names if other != name)
    return list(others)[:MOST], list(dict.fromkeys(page for page, _ in own))
