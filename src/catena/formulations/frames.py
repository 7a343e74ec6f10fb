"""Where bodies stand and how they move, in the user's frames."""

from __future__ import annotations

import numpy as np

from catena.formulations.kinematics import placements, world_frames
from catena.spatial import Rigid


def poses(tree, q, names):
    """Return the 4 x 4 poses of the named bodies in the world."""
    frames = world_frames(tree, q)
    return np.stack([(frames[k] @ offset).matrix() for k, offset in (tree.frames[name] for name in names)])


def jacobian(tree, q, name, point):
    """Return the 6 x nv matrix that maps v to the angular velocity of a body and the velocity of a point on it, in the world's axes."""
    X, S = placements(tree, q)
    k, offset = tree.frames[name]
    J = np.zeros((6, tree.nv)).astype(object)

    # outward along the path to the body: carry the columns of the inboard joints along, add the body's own
    path = list(tree.path(k))
    for j in reversed(path):
        tree.mark()
        inboard = [c for i in path if i < j for c in range(tree.v_slices[i].start, tree.v_slices[i].stop)]
        if inboard:
            J[:, inboard] = X[j].motions(J[:, inboard])
        J[:, tree.v_slices[j]] = S[j]

    frame = world_frames(tree, q)[k]
    at_point = Rigid(np.eye(3), offset.p + offset.R @ point)
    columns = []
    for c in range(tree.nv):
        twist = at_point.motion(J[:, c])
        columns.append(np.concatenate([frame.R @ twist[:3], frame.R @ twist[3:]]))
    return np.stack(columns, axis=1)
