"""Runge-Kutta methods as data: a table of coefficients, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from catena.errors import MethodError


@dataclass(frozen=True)
class Tableau:
    """The coefficients of a Runge-Kutta method; `error` are the weights of its error estimate, of order `error_order`.

    Explicit methods begin with a stage at the start of the step.

    >>> TABLEAUS["rk4"].stages
    4
    """

    name: str
    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    error: tuple[float, ...] = ()
    error_order: int = 0
    second: tuple[float, ...] = ()  # weights of a second estimate that tempers the first
    w: tuple[tuple[float, ...], ...] = ()  # of a Rosenbrock-W method: coefficients of the linear part, on the diagonal all alike

    def __post_init__(self) -> None:
        a = np.array([[*row, *[0.0] * (len(self.b) - len(row))] for row in self.a])
        if a.shape != (len(self.b), len(self.b)) or len(self.c) != len(self.b):
            raise MethodError(f"tableau '{self.name}': {len(self.b)} weights, {a.shape} coefficients and {len(self.c)} nodes do not fit")
        if np.abs(a.sum(axis=1) - self.c).max() > 1e-14 * max(1.0, np.abs(a).max()):
            raise MethodError(f"tableau '{self.name}': the rows do not add up to the nodes")
        b, c = np.array(self.b), np.array(self.c)
        for k in range(self.order):
            if abs(b @ c**k - 1.0 / (k + 1)) > 1e-13 * max(1.0, np.abs(b).max()):
                raise MethodError(f"tableau '{self.name}': the weights do not integrate t^{k}, as order {self.order} must")
        if self.w:
            self._check_linear_part(a, b)
        for error in filter(None, (self.error, self.second)):
            if len(error) != len(b) or abs(sum(error)) > 1e-14 * max(1.0, np.abs(error).max()):
                raise MethodError(f"tableau '{self.name}': the error weights must be as many as the stages and add up to 0")

    def _check_linear_part(self, a: np.ndarray, b: np.ndarray) -> None:
        """Refuse a linear part that costs the method its order, up to 3, for some matrix."""
        w = np.array([[*row, *[0.0] * (len(b) - len(row))] for row in self.w])
        one = np.ones(len(b))
        products = (w @ one, w @ w @ one, w @ a @ one, a @ w @ one) if self.order == 3 else (w @ one,)
        if self.order > 3 or w.shape != a.shape or np.ptp(w.diagonal()) or any(abs(b @ x) > 1e-14 for x in products):
            raise MethodError(f"tableau '{self.name}': the coefficients of the linear part do not keep order {self.order}")

    @property
    def stages(self) -> int:
        return len(self.b)

    @property
    def reuses_last(self) -> bool:
        """Whether the last stage is the first of the next step."""
        return not self.implicit and self.a[-1] == self.b[:-1] and self.b[-1] == 0.0

    @property
    def implicit(self) -> bool:
        """Whether a stage depends on itself or on later ones."""
        return any(len(row) > i and any(row[i:]) for i, row in enumerate(self.a))


_R3, _R15 = sqrt(3.0), sqrt(15.0)
_RA = 0.435866521508459

_TABLEAUS = (
    Tableau("midpoint", 2, ((), (0.5,)), (0.0, 1.0), (0.0, 0.5)),
    Tableau("rk4", 4, ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.0, 0.5, 0.5, 1.0)),
    Tableau(
        "bogacki-shampine",
        3,
        ((), (1 / 2,), (0.0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
        (2 / 9, 1 / 3, 4 / 9, 0.0),
        (0.0, 1 / 2, 3 / 4, 1.0),
        (2 / 9 - 7 / 24, 1 / 3 - 1 / 4, 4 / 9 - 1 / 3, -1 / 8),
        2,
    ),
    Tableau(
        "dormand-prince",
        5,
        (
            (),
            (1 / 5,),
            (3 / 40, 9 / 40),
            (44 / 45, -56 / 15, 32 / 9),
            (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
            (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
            (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
        ),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
        (0.0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
        (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
        4,
    ),
    Tableau(
        "dop853",
        8,
        (
            (),
            (0.05260015195876773,),
            (0.0197250569845379, 0.0591751709536137),
            (0.02958758547680685, 0.0, 0.08876275643042054),
            (0.2413651341592667, 0.0, -0.8845494793282861, 0.924834003261792),
            (0.037037037037037035, 0.0, 0.0, 0.17082860872947386, 0.12546768756682242),
            (0.037109375, 0.0, 0.0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
            (0.03709200011850479, 0.0, 0.0, 0.17038392571223998, 0.10726203044637328, -0.015319437748624402, 0.008273789163814023),
            (
                0.6241109587160757, 0.0, 0.0, -3.3608926294469414, -0.868219346841726, 27.59209969944671, 20.154067550477894,
                -43.48988418106996,
            ),
            (
                0.47766253643826434, 0.0, 0.0, -2.4881146199716677, -0.590290826836843, 21.230051448181193, 15.279233632882423,
                -33.28821096898486, -0.020331201708508627,
            ),
            (
                -0.9371424300859873, 0.0, 0.0, 5.186372428844064, 1.0914373489967295, -8.149787010746927, -18.52006565999696,
                22.739487099350505, 2.4936055526796523, -3.0467644718982196,
            ),
            (
                2.273310147516538, 0.0, 0.0, -10.53449546673725, -2.0008720582248625, -17.9589318631188, 27.94888452941996,
                -2.8589982771350235, -8.87285693353063, 12.360567175794303, 0.6433927460157636,
            ),
        ),
        (
            0.054293734116568765, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003, -5.801203960010585, 0.3111643669578199,
            -0.1521609496625161, 0.20136540080403034, 0.04471061572777259,
        ),
        (
            0.0, 0.05260015195876773, 0.0789002279381516, 0.1183503419072274, 0.2816496580927726, 0.3333333333333333, 0.25,
            0.3076923076923077, 0.6512820512820513, 0.6, 0.8571428571428571, 1.0,
        ),
        (
            0.01312004499419488, 0.0, 0.0, 0.0, 0.0, -1.2251564463762044, -0.4957589496572502, 1.6643771824549864,
            -0.35032884874997366, 0.3341791187130175, 0.08192320648511571, -0.022355307863886294,
        ),
        7,
        (
            -0.18980075407240762, 0.0, 0.0, 0.0, 0.0, 4.450312892752409, 1.8915178993145003, -5.801203960010585, -0.4226823213237919,
            -0.1521609496625161, 0.20136540080403034, 0.02265179219836082,
        ),
    ),
    # [RA05] Rang and Angermann, ROS34PW2: L-stable, stiffly accurate, and of order 3 whatever the matrix of its linear part
    Tableau(
        "rang-angermann",
        3,
        ((), (0.871733043016918,), (0.8445706001536942, -0.11299064236484185), (0.0, 0.0, 1.0)),
        (0.24212380706095346, -1.2232505839045147, 1.545260255335102, 0.435866521508459),
        (0.0, 0.871733043016918, 0.7315799577888524, 1.0),
        (
            0.24212380706095346 - 0.3781090314581937, -1.2232505839045147 + 0.09604229221242318, 1.545260255335102 - 0.5,
            0.435866521508459 - 0.2179332607542295,
        ),
        2,
        w=(
            (_RA,),
            (-0.871733043016918, _RA),
            (-0.9033805701304408, 0.054180672388095326, _RA),
            (0.24212380706095346, -1.2232505839045147, 0.5452602553351021, _RA),
        ),
    ),
    Tableau("implicit-midpoint", 2, ((0.5,),), (1.0,), (0.5,)),
    Tableau(
        "gauss-legendre-4",
        4,
        ((1 / 4, 1 / 4 - _R3 / 6), (1 / 4 + _R3 / 6, 1 / 4)),
        (1 / 2, 1 / 2),
        (1 / 2 - _R3 / 6, 1 / 2 + _R3 / 6),
    ),
    Tableau(
        "gauss-legendre-6",
        6,
        (
            (5 / 36, 2 / 9 - _R15 / 15, 5 / 36 - _R15 / 30),
            (5 / 36 + _R15 / 24, 2 / 9, 5 / 36 - _R15 / 24),
            (5 / 36 + _R15 / 30, 2 / 9 + _R15 / 15, 5 / 36),
        ),
        (5 / 18, 4 / 9, 5 / 18),
        (1 / 2 - _R15 / 10, 1 / 2, 1 / 2 + _R15 / 10),
    ),
)

#: The methods by name.
TABLEAUS: dict[str, Tableau] = {tableau.name: tableau for tableau in _TABLEAUS}
