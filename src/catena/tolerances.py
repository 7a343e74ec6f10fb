"""Every threshold of loops and of identification, with its unit and reason. Numbers of steps and starts are beside their searches.

Constraints are measured without units: lengths by the size of their own loop, angles in radians, couplings by their largest coefficient;
coordinates by their reach, a radian or the size of the loop. Masses have no say in it. A pivot is what is left of a row, or column, of the
constraint Jacobian once those before it are taken out; its part of the whole is the sine of an angle between constraints.
"""

# assembly

#: What rounding leaves of a closure residual at most, as a part of the lengths [m] from which it is computed.
ROUNDING = 16.0 * 2.0**-52

#: A mechanism is together where no loop is further open than this: some thousand times the rounding of its lengths.
CLOSED = 1e-12

#: States whose loops are open by more than this are refused, and velocities and accelerations that open them at such a part of their own
#: size: a millionth is more than integrators and files leave, and less than a wrong branch.
LOOSE = 1e-6

#: Positions whose loops are open by no more than this are taken for a configuration that the user knows, such as one with three decimals.
NEARLY = 1e-2

#: A search stops at a minimum of the residual: where the gradient is the first part of the largest that residual and Jacobian could have,
#: and the residual is above the second, so that it does not come from rounding.
MINIMUM, ABOVE_ROUNDING = 1e-6, 1e-9

#: A start makes progress where the steps of `PATIENCE` take off this part of the residual at least.
PROGRESS = 0.05

#: A search for configurations follows singular values of the Jacobian down to this part of the largest, which is less than a rank counts:
#: so it comes as near to a singular configuration as rounding lets it.
SEARCH = 1e-9

# rank and conditioning

#: Pivots below this part of the largest are zero. What is left of a constraint that depends on others is 1e-15 or so; but a singular
#: configuration, such as a folded linkage, is a double root of the closure residual: it is found to the square root of rounding, 1e-8, and
#: so are its pivots. A mechanism this near to a singular configuration has lost half of its digits.
RANK = 1e-7

#: Where the rank is known, as along a motion, pivots count down to this: the rounding of a Jacobian.
LOST = 1e-13

#: At a state that closes the loops less well, constraints that depend on each other differ by its closure residual, times what lies between
#: a coordinate and the end of its loop. Below so many times the residual, pivots are zero, and constraints may contradict each other.
CLOSURE = 100.0

#: A plan serves a state where all its pivots are at least this part of their rows: three digits are lost at most.
PIVOT = 1e-3

#: Multipliers are found from J M^-1 J^T, whose pivots depend on masses. Where one is below this part of its entry, the square of a sine in
#: the metric of the inverse masses, four digits are lost; and three more where loops hold back accelerations a thousand times as large.
#: Such states are solved by pivots chosen for them.
MULTIPLIER_PIVOT = 1e-4

#: Accelerations that a plan gives meet all constraints, chosen or not, to this part of their terms; else the plan lacks one of them.
RESIDUAL = 1e-9

#: What null vectors add to a component of a joint wrench is rounding below this part of the largest; so are entries of the Jacobian and
#: motions of a platform where plans are made: they come from products of a few rotations.
ZERO = 1e-9

#: Where the accelerations of a generic velocity that keeps the loops closed do so too, up to this part, the constraints that depend on each
#: other at a state do so around it, and the state is regular.
CONSISTENT = 1e-6

#: A motion whose inertia is below this part of the largest counts as massless where velocities are projected by kinetic energy.
MASSLESS = 1e-12

#: Measures of a manipulator's singularities below this, sines of angles, are named as singular.
NAMED_SINGULAR = 1e-6

# making plans

#: A pivot is at least this part of its row: so dependent coordinates move at most as many times as far as independent ones.
PLAN_PIVOT = 0.1

#: Open loops are held by pivots that are at least this part of their rows as they were; else coordinates wait longer.
PLAN_HOLD = 0.01

#: They wait anyhow where a group of loops has no more than this many coordinates for each that depends: that costs less than to hold them.
PLAN_FEW = 2.0

#: A loop is closed before all its joints are known where so many fewer coordinates wait on the way there, added up over the bodies that are
#: moved to moving ones. Counted on the examples and on rings: this saves up to 16 % of the operations, and costs none; 1 would cost small
#: linkages up to 3 %.
PLAN_FEWER = 2

#: Constraints whose least singular value is this part of the largest are independent enough for a generic configuration.
GENERIC = 0.05

# runs

#: The conditioning of a plan is the square of a sine: 1 where its pivots are as large as they can be, 0 where it holds nothing. A run uses
#: a plan until its conditioning is the first part of what it was where the plan was made, at most until the second: beyond it the
#: accelerations of stages, which are not quite on the loops, depend on the plan, and steps lose accuracy.
PLAN_WORSE, PLAN_WEAK = 1e-1, 1e-2

#: Independent coordinates are integrated by plans that are at least so well conditioned: errors of dependent ones grow by its inverse, and
#: would stay in the motion. A projection by kinetic energy, as that by pivots, takes them out.
INTEGRATED = 1e-4

#: A plan that a run has left is taken up again from so many times its limit on.
RESUMED = 2.0

#: A configuration at which the best pivots are not better conditioned than this is singular.
SINGULAR = 1e-12

#: Samples are put on the constraints whose pivots are at least this; nearer to a singular configuration they stay where they are, for what
#: is left of a constraint, divided by its pivot, would move them further than they are off.
SAMPLED = 1e-5

#: Steps of runs meet all constraints to this, relative to the mechanism's size or in radians, those that are not in the plan too.
ON_CONSTRAINTS = 1e-11

# identification

#: A column of the regressor, or of a Jacobian by parameters, of which less than this part is independent of the columns before it is a
#: combination of them. Over random states, rounding leaves 1e-14 or so of a column that depends on others, and 1e-3 or more of others: this
#: is the middle of the two, and no measurement could tell apart columns that are this near to each other.
IDENTIFIABLE = 1e-8

#: A column is zero, and its parameter without effect, below this part of the largest, where lengths are measured by the mechanism's size.
NO_EFFECT = 1e-10

#: Coefficients of combinations below this, for columns of length 1, are rounding.
COEFFICIENT = 1e-7
