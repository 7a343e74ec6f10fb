"""The tool of an arm goes through way points with its axis pointing down: inverse kinematics, a path through them, and a controller.

`ct.inverse_kinematics` finds the positions of the joints at all way points in one call; `ct.cartesian_path` leads the tool through them,
and `ct.computed_torque` gives the torques. Run it with the path of a picture, or it writes waypoints.png to the current folder.
"""

import sys

import numpy as np

import catena as ct
from catena.examples import arm

m = arm()
m.add_frame("tool", "hand", at=(0, 0, 0.2))
corners = np.array([(0.45, -0.3, 0.3), (0.6, 0.0, 0.5), (0.45, 0.3, 0.3), (0.3, 0.0, 0.25)])
down = [ct.Pose(corner, rpy=(np.pi, 0.0, 0.0)) for corner in corners]

posture = np.array([0.0, 0.4, 0.0, 1.8, 0.0, 0.9, 0.0])
poses = np.array([pose.matrix() for pose in down])
found = ct.inverse_kinematics(m, {"tool": poses}, guess=posture, posture=posture)
print(f"{found.solved.sum()} of {len(poses)} way points reached, within {found.position_errors.max():.0e} m")

path = ct.cartesian_path(m, "tool", down, duration=4.0, guess=found.q[0])
print(f"{len(path.times)} knots, at most {1e6 * path.deviation:.1f} um or urad off the way")

run = ct.simulate(m, path.start, until=4.0, controller=ct.computed_torque(m, path, bandwidth=20.0))
tool = ct.poses(m, of="tool")(run.q)
tilt = np.degrees(np.arccos(np.clip(-tool[:, 2, 2], -1.0, 1.0)).max())
near = np.linalg.norm(tool[:, None, :3, 3] - corners, axis=-1).min(axis=0)
print(f"the tool passes the way points within {1e3 * near.max():.1f} mm, tilted by {tilt:.3f} degrees at most")
run.draw(sys.argv[1] if len(sys.argv) > 1 else "waypoints.png", [0.0, 1.3, 2.7, 4.0], size=(360, 400))
