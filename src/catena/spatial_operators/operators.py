"""The spatial operators of [J91] at one configuration: as dense arrays to look at, and as products that are compiled and matrix-free.

A product is evaluated in two stages. What depends on the configuration is computed once; a second kernel takes it and a vector, or a batch
of vectors. Kernels are compiled on first use and belong to the model, so that all `Operators` of a model share them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from catena.errors import ArgumentError, ModelError
from catena.formulations.operators import quantities
from catena.model import Mechanism
from catena.model.tree import read_only
from catena.model.values import array, coordinates, number
from catena.spatial_operators import kernels

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

#: A direction in which a body moves less than this part of what it moves in the best one counts as one in which it does not move.
_RANK = 1e-12


def operators(m: Mechanism, q: Any, t: float = 0.0) -> Operators:
    """Return the spatial operators of a model at the configuration q (nq,); quaternions are taken as they are.

    Where joints are driven, they stand as they do at the time t [s], and kernels are compiled for that time.

    >>> ops = ct.operators(examples.chain(3), [0.1, 0.2, 0.3])
    >>> ops
    <Operators of 'chain': 3 bodies, nv = 3>
    >>> v = np.array([1.0, 0.0, 0.0])
    >>> bool(np.allclose(ops.mass_inverse @ (ops.mass @ v), v, atol=1e-12))
    True
    """
    if not isinstance(m, Mechanism):
        raise ModelError(f"operators: {m!r} is not a model; give a ct.Model")
    return Operators(m.at(number("operators: t", t)), q)


class Operators:
    """The spatial operators of a model at one configuration, made by `operators`.

    Bodies are the moving ones, in the order they were added, parents before children; bodies welded to them are part of them. What
    belongs to a body is expressed in the frame that the user gave it, spatial vectors angular part first. The paper numbers bodies from
    the tip, so that its lower triangles are upper ones here. A star in the docstrings is a transpose, n the number of bodies.

    Dense operators, made on first request and read-only, satisfy the identities of [J91] §§2-6. Those of size 6n take 288 n^2 bytes.
    `mass`, `mass_inverse`, `mass_sqrt` and `mass_inverse_sqrt` are `scipy.sparse.linalg.LinearOperator`s whose products cost O(n).

    >>> ops = ct.operators(examples.arm(), np.linspace(-1.0, 1.0, 7))
    >>> mass = ops.H @ ops.phi @ ops.M @ ops.phi.T @ ops.H.T
    >>> bool(np.allclose(mass, ops.mass @ np.eye(7), rtol=1e-12, atol=1e-12))
    True
    """

    def __init__(self, m: Mechanism, q: Any) -> None:
        self._model = m = m.frozen()
        self._tree = m.tree()
        self._q = read_only(coordinates("operators: q", q, m.q_names, m.name))
        self._held: dict[str, np.ndarray] = {}

    def __repr__(self) -> str:
        return f"<Operators of {self._model.name!r}: {self._tree.n} bodies, nv = {self._tree.nv}>"

    @property
    def q(self) -> np.ndarray:
        """The configuration, read-only.

        >>> ct.operators(examples.chain(2), [0.1, 0.2]).q
        array([0.1, 0.2])
        """
        return self._q

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of the moving bodies, in the order of the operators' blocks.

        >>> ct.operators(examples.chain(2), [0.1, 0.2]).bodies
        ('link1', 'link2')
        """
        return self._tree.names

    # dense operators

    @cached_property
    def _quantities(self) -> tuple[list[np.ndarray], ...]:
        """X, S, M, R, P, D and G of the bodies, in the user's frames."""
        return tuple([np.asarray(x, dtype=float) for x in column] for column in quantities(self._tree, self._q))

    def _dense(self, rows: str, columns: str, block: Callable[..., Any], shifts: bool = False) -> np.ndarray:
        """Return an operator by its blocks at (body, body), or at (parent, body) if it `shifts`.

        Rows and columns are those of "bodies" or of "joints"; `block(X, S, M, R, P, D, G)` gives the block of a body.
        """
        places = {"bodies": [slice(6 * k, 6 * k + 6) for k in range(self._tree.n)], "joints": self._tree.v_slices}
        sizes = {"bodies": 6 * self._tree.n, "joints": self._tree.nv}
        result = np.zeros((sizes[rows], sizes[columns]))
        for k, of_body in enumerate(zip(*self._quantities, strict=True)):
            row = self._tree.parent[k] if shifts else k
            if row >= 0:
                result[places[rows][row], places[columns][k]] = block(*of_body)
        return read_only(result)

    def _closure(self, E: np.ndarray) -> np.ndarray:
        """Return (I - E)^-1 of an operator with blocks at (parent, body): I + E + E^2 + …"""
        result = np.eye(len(E))
        for k, p in enumerate(self._tree.parent):
            if p >= 0:
                parent, body = slice(6 * p, 6 * p + 6), slice(6 * k, 6 * k + 6)
                result[:, body] += result[:, parent] @ E[parent, body]
        return read_only(result)

    @cached_property
    def E_phi(self) -> np.ndarray:
        """Shift of forces from every body to its parent, (6n, 6n). [J91] (19).

        >>> E = ct.operators(examples.chain(3), np.zeros(3)).E_phi
        >>> [int(np.abs(power).max() > 0.0) for power in (E, E @ E, E @ E @ E)]
        [1, 1, 0]
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: X.T, shifts=True)

    @cached_property
    def phi(self) -> np.ndarray:
        """Shift of forces from every body to all inboard of it, (I - E_phi)^-1, (6n, 6n). [J91] (20).

        The velocities of the bodies are phi* H* v.

        >>> ops = ct.operators(examples.chain(2), np.zeros(2))
        >>> (ops.phi.T @ ops.H.T @ [1.0, 0.0]).reshape(2, 6).round(12) + 0.0  # both turn about z, the second moves along y
        array([[0., 0., 1., 0., 0., 0.],
               [0., 0., 1., 0., 1., 0.]])
        """
        return self._closure(self.E_phi)

    @cached_property
    def H(self) -> np.ndarray:
        """Joints' directions as rows, (nv, 6n): H* maps joint velocities to velocities across the joints. [J91] (18).

        >>> ct.operators(examples.chain(1), np.zeros(1)).H
        array([[0., 0., 1., 0., 0., 0.]])
        """
        return self._dense("joints", "bodies", lambda X, S, M, R, P, D, G: S.T)

    @cached_property
    def M(self) -> np.ndarray:
        """Inertias of the bodies, block diagonal (6n, 6n). [J91] (10), (18).

        >>> m = ct.Model("ball")
        >>> m.add("ball", ct.sphere(0.1, mass=2.0), ct.Free())
        >>> np.diag(ct.operators(m, m.neutral()).M)
        array([0.008, 0.008, 0.008, 2.   , 2.   , 2.   ])
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: M)

    @cached_property
    def R(self) -> np.ndarray:
        """Composite inertias: of each body and all that it carries, as if welded, block diagonal (6n, 6n). [J91] (25), (26).

        >>> float(ct.operators(examples.chain(5), np.zeros(5)).R[3, 3])  # the mass that the first body carries
        5.0
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: R)

    @cached_property
    def P(self) -> np.ndarray:
        """Articulated inertias: of each body and all that it carries, joints free, block diagonal (6n, 6n). [J91] (45).

        >>> ops = ct.operators(examples.chain(5), np.zeros(5))
        >>> bool(np.linalg.eigvalsh(ops.R - ops.P).min() > -1e-12)  # free joints take inertia away
        True
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: P)

    @cached_property
    def D(self) -> np.ndarray:
        """Inertias that the joints feel, H P H* and the armatures, block diagonal (nv, nv). [J91] (53).

        >>> m = ct.Model("pendulum")
        >>> m.add("arm", ct.point_mass(2.0, at=(0.5, 0, 0)), ct.Revolute("y", armature=0.1))
        >>> ct.operators(m, [0.0]).D
        array([[0.6]])
        """
        return self._dense("joints", "joints", lambda X, S, M, R, P, D, G: D)

    @cached_property
    def G(self) -> np.ndarray:
        """Gains P H* D^-1, block diagonal (6n, nv). [J91] (53).

        >>> ops = ct.operators(examples.chain(2), np.zeros(2))
        >>> bool(np.allclose(ops.G @ ops.D, ops.P @ ops.H.T))
        True
        """
        return self._dense("bodies", "joints", lambda X, S, M, R, P, D, G: G)

    @cached_property
    def K(self) -> np.ndarray:
        """Gains shifted to the parents, E_phi G, (6n, nv). [J91] (53).

        >>> ct.operators(examples.chain(2), np.zeros(2)).K.shape
        (12, 2)
        """
        return self._dense("bodies", "joints", lambda X, S, M, R, P, D, G: X.T @ G, shifts=True)

    @cached_property
    def tau(self) -> np.ndarray:
        """Part of a force that the joints give way to, G H, block diagonal (6n, 6n); a projection but for armatures. [J91] (53).

        >>> tau = ct.operators(examples.chain(2), np.zeros(2)).tau
        >>> bool(np.allclose(tau @ tau, tau))
        True
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: G @ S.T)

    @cached_property
    def tau_bar(self) -> np.ndarray:
        """Part of a force that passes the joints, I - G H, block diagonal (6n, 6n). [J91] (53).

        >>> ops = ct.operators(examples.chain(2), np.zeros(2))
        >>> bool(np.allclose(ops.H @ ops.tau_bar, 0.0))
        True
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: np.eye(6) - G @ S.T)

    @cached_property
    def E_psi(self) -> np.ndarray:
        """Shift of forces from every body through its joint to its parent, E_phi (I - G H), (6n, 6n). [J91] (53).

        >>> ops = ct.operators(examples.chain(2), np.zeros(2))
        >>> bool(np.allclose(ops.E_psi, ops.E_phi @ ops.tau_bar))
        True
        """
        return self._dense("bodies", "bodies", lambda X, S, M, R, P, D, G: X.T @ (np.eye(6) - G @ S.T), shifts=True)

    @cached_property
    def psi(self) -> np.ndarray:
        """Shift of forces from every body through the joints to all inboard of it, (I - E_psi)^-1, (6n, 6n). [J91] (54).

        >>> ops = ct.operators(examples.chain(2), np.zeros(2))
        >>> bool(np.allclose(np.linalg.inv(ops.psi), np.linalg.inv(ops.phi) + ops.K @ ops.H))
        True
        """
        return self._closure(self.E_psi)

    # products

    @cached_property
    def mass(self) -> LinearOperator:
        """The mass matrix, armatures included, as a linear operator (nv, nv): H phi M phi* H*. [J91] (17), (21).

        >>> ops = ct.operators(examples.arm(), np.zeros(7))
        >>> (ops.mass @ np.ones(7)).shape, (ops.mass @ np.ones((7, 100))).shape
        ((7,), (7, 100))
        """
        return self._operator("mass", "mass")

    @cached_property
    def mass_inverse(self) -> LinearOperator:
        """The inverse of the mass matrix as a linear operator (nv, nv): [I - H psi K]* D^-1 [I - H psi K]. [J91] (46), Lemma 6.4.

        >>> ops = ct.operators(examples.arm(), np.zeros(7))
        >>> bool(np.allclose((ops.mass_inverse @ ops.mass) @ np.ones(7), 1.0))
        True
        """
        return self._operator("mass_inverse", "mass_inverse")

    @cached_property
    def mass_sqrt(self) -> LinearOperator:
        """The square factor W of the mass matrix W W*, as a linear operator (nv, nv): [I + H phi K] D^(1/2). [J91] Lemma 6.2.

        W is upper triangular with a positive diagonal; `mass_sqrt.H` is W*.

        >>> ops = ct.operators(examples.arm(), np.zeros(7))
        >>> x = np.ones(7)
        >>> bool(np.allclose(ops.mass_sqrt @ (ops.mass_sqrt.H @ x), ops.mass @ x))
        True
        """
        return self._operator("mass_sqrt", "mass_sqrt_adjoint")

    @cached_property
    def mass_inverse_sqrt(self) -> LinearOperator:
        """The square factor V of the inverse mass matrix V V*, as a linear operator (nv, nv): [I - H psi K]* D^(-1/2)*. [J91] Lemma 6.4.

        V is W^-*, with W of `mass_sqrt`: joint velocities V x have the kinetic energy x* x / 2, so that normal x give thermal velocities.

        >>> ops = ct.operators(examples.arm(), np.zeros(7))
        >>> v = ops.mass_inverse_sqrt @ np.ones(7)
        >>> round(float(v @ (ops.mass @ v)), 12)
        7.0
        """
        return self._operator("mass_inverse_sqrt", "mass_inverse_sqrt_adjoint")

    def _operator(self, product: str, adjoint: str) -> LinearOperator:
        from scipy.sparse.linalg import LinearOperator  # here, because `import catena` does not wait for SciPy

        times, back = partial(self._times, product), partial(self._times, adjoint)
        shape = (self._tree.nv, self._tree.nv)
        return LinearOperator(shape, matvec=times, rmatvec=back, matmat=times, rmatmat=back, dtype=np.dtype(float))  # type: ignore[call-arg]

    def _times(self, product: str, x: Any) -> np.ndarray:
        """Return a product with a vector, or with the columns of a matrix in one call."""
        x = np.asarray(x)
        if np.iscomplexobj(x):
            return self._times(product, x.real) + 1j * self._times(product, x.imag)
        family = kernels.family(product)
        if family not in self._held:
            self._held[family] = kernels.first_stage(self._model, family)(self._q)
        columns = x.astype(float, copy=False).reshape(self._tree.nv, -1).T
        return kernels.second_stage(self._model, product)(self._held[family], columns).T.reshape(x.shape)

    # numbers

    @cached_property
    def log_det_mass(self) -> float:
        """Logarithm of the determinant of the mass matrix: the sum of those of D's pivots. [J91] Lemma 6.2.

        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(np.e), ct.Prismatic("x"))
        >>> ct.operators(m, [0.0]).log_det_mass
        1.0
        """
        return float(kernels.log_det_mass(self._model)(self._q))

    def operational_inertia_inverse(self, body: str, point: Any = (0.0, 0.0, 0.0)) -> np.ndarray:
        """Return J M^-1 J* (6, 6), with the mass matrix M and J of `ct.jacobian(m, body, point)`: what the point gives way to a force.

        A moment and force f on the point, in the world's axes, give its body the angular and linear acceleration J M^-1 J* f, in addition
        to what it has without. `point` is in the body's frame [m].

        >>> m = ct.Model("slider")
        >>> m.add("cart", ct.point_mass(2.0), ct.Prismatic("x"))
        >>> np.diag(ct.operators(m, [0.0]).operational_inertia_inverse("cart"))
        array([0. , 0. , 0. , 0.5, 0. , 0. ])
        """
        return self._operational_inverse("operational_inertia_inverse", body, point)

    def operational_inertia(self, body: str, point: Any = (0.0, 0.0, 0.0)) -> np.ndarray:
        """Return (J M^-1 J*)^-1 (6, 6): the inertia that a point of a body shows to a moment and force on it, in the world's axes.

        The body must be able to move in all six directions; where it cannot, use `operational_inertia_inverse`.

        >>> m = ct.Model("ball")
        >>> m.add("ball", ct.sphere(0.1, mass=2.0), ct.Free())
        >>> np.diag(ct.operators(m, m.neutral()).operational_inertia("ball"))
        array([0.008, 0.008, 0.008, 2.   , 2.   , 2.   ])
        """
        inverse = self._operational_inverse("operational_inertia", body, point)
        # turning and moving have units of their own: each is measured by its largest entry
        largest = np.sqrt([np.diag(inverse)[part].max() for part in (slice(3), slice(3, 6))])
        unit = np.repeat(1.0 / np.where(largest > 0.0, largest, 1.0), 3)
        scaled = np.outer(unit, unit) * inverse
        rank = int(np.linalg.matrix_rank(scaled, tol=_RANK, hermitian=True))
        if rank < 6:
            raise ArgumentError(
                f"operational_inertia: body '{body}' can move in {rank} of 6 directions at this configuration, so that its inertia in the "
                "others has no value; use operational_inertia_inverse"
            )
        inertia = np.outer(unit, unit) * np.linalg.inv(scaled)
        return 0.5 * (inertia + inertia.T)

    def _operational_inverse(self, what: str, body: str, point: Any) -> np.ndarray:
        if not isinstance(body, str) or body not in self._tree.frames:
            names = ", ".join(f"'{known}'" for known in self._tree.frames)
            raise ModelError(f"{what} names body {body!r}, which is not in model '{self._model.name}'; choose from {names}")
        at = array(f"{what} point", point, (3,))
        return kernels.operational_inverse(self._model, body)(self._q, at)
