"""The public names of catena, with the rooms that they come from: what `import catena` offers, once one of them is used."""

from catena.analysis import Equilibrium, Linearization, Mode, Modes, equilibrium, linearize, modes
from catena.control import (
    CartesianPath,
    OptimalMotion,
    Path,
    cartesian_path,
    computed_torque,
    cycloidal,
    ilqr,
    polynomial,
    trapezoidal,
)
from catena.errors import (
    ArgumentError,
    AssemblyWarning,
    CatenaError,
    CompileError,
    ConvergenceWarning,
    ExportError,
    InertiaWarning,
    LimitWarning,
    MethodError,
    MissingPackageError,
    ModelError,
    ModelFileError,
    SimulationError,
    SingularWarning,
    StiffnessWarning,
    TraceError,
    TrajectoryFileError,
    ViewWarning,
)
from catena.export import CSource, export_c, export_casadi, export_jax
from catena.facade import Model, load
from catena.graph import atan2, maximum, minimum, where
from catena.identification import (
    BaseParameters,
    FourierPath,
    Identified,
    base_parameters,
    excitation,
    identify,
    linear_parameters,
    regressor,
)
from catena.kernels.actuation import actuator_forces
from catena.kernels.bias_forces import bias_force, coriolis_force, coriolis_matrix, gravity_force, passive_force
from catena.kernels.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from catena.kernels.dynamics import (
    contact_forces,
    driving_forces,
    energy,
    forward_dynamics,
    hamiltonian_dynamics,
    inverse_dynamics,
    joint_wrenches,
    loop_error,
    mass_matrix,
    momenta,
    velocities,
)
from catena.kernels.kinematics import (
    bias_acceleration,
    center_of_mass,
    centroidal_momentum,
    frame_acceleration,
    frame_velocity,
    jacobian,
    poses,
)
from catena.kernels.methods import methods
from catena.kernels.reduced import Reduced, reduced
from catena.kinematic_targets import InverseKinematics, Target, inverse_kinematics
from catena.model import (
    Body,
    Custom,
    Cylindrical,
    Distance,
    Driven,
    Fixed,
    Free,
    Geometry,
    Harmonic,
    Helical,
    Planar,
    Pose,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
    box,
    cylinder,
    dissipation_of,
    hull_points,
    point_mass,
    python,
    restitution_of,
    rod,
    sphere,
)
from catena.native import Kernel, threads
from catena.parallel import ParallelManipulator
from catena.simulation import (
    Event,
    MotionGradient,
    MotionSensitivity,
    Occurrence,
    Rollout,
    Trajectory,
    ensemble,
    rollout,
    rollout_gradient,
    rollout_sensitivity,
    simulate,
    simulate_gradient,
    stepper,
)
from catena.spatial_operators import Operators, operators

__all__ = [
    "ArgumentError", "AssemblyWarning", "BaseParameters", "Body", "CSource", "CartesianPath", "CatenaError", "CompileError",
    "ConvergenceWarning", "Custom", "Cylindrical", "Distance", "Driven", "Equilibrium", "Event", "ExportError", "Fixed", "FourierPath",
    "Free", "Geometry", "Harmonic", "Helical", "Identified", "InertiaWarning", "InverseKinematics", "Kernel", "LimitWarning",
    "Linearization", "MethodError", "MissingPackageError", "Mode", "Model", "ModelError", "ModelFileError", "Modes", "MotionGradient",
    "MotionSensitivity", "Occurrence", "Operators", "OptimalMotion", "ParallelManipulator", "Path", "Planar", "Pose", "Prismatic",
    "Reduced", "Revolute", "Rollout", "SimulationError", "SingularWarning", "Spherical", "StiffnessWarning", "Target", "TraceError",
    "Trajectory", "TrajectoryFileError", "Universal", "ViewWarning", "actuator_forces", "atan2", "base_parameters", "bias_acceleration",
    "bias_force", "box", "cartesian_path", "center_of_mass", "centroidal_momentum", "computed_torque", "contact_forces", "coriolis_force",
    "coriolis_matrix", "cycloidal", "cylinder", "dissipation_of", "driving_forces", "energy", "ensemble", "equilibrium", "excitation",
    "export_c", "export_casadi", "export_jax", "forward_dynamics", "forward_dynamics_derivatives", "frame_acceleration", "frame_velocity",
    "gravity_force", "hamiltonian_dynamics", "hull_points", "identify", "ilqr", "inverse_dynamics", "inverse_dynamics_derivatives",
    "inverse_kinematics", "jacobian", "joint_wrenches", "linear_parameters", "linearize", "load", "loop_error", "mass_matrix", "maximum",
    "methods", "minimum", "modes", "momenta", "operators", "passive_force", "point_mass", "polynomial", "poses", "python", "reduced",
    "regressor", "restitution_of", "rod", "rollout", "rollout_gradient", "rollout_sensitivity", "simulate", "simulate_gradient", "sphere",
    "stepper", "threads", "trapezoidal", "velocities", "where",
]  # fmt: skip
