"""Identification of robots: which parameters measurements tell, which motions excite them, and their values from measurements."""

from catena.identification.base import BaseParameters, base_parameters
from catena.identification.excitation import FourierPath, excitation
from catena.identification.identified import Identified
from catena.identification.identify import identify
from catena.identification.regressor import linear_parameters, regressor

__all__ = [
    "BaseParameters", "FourierPath", "Identified", "base_parameters", "excitation", "identify", "linear_parameters", "regressor",
]  # fmt: skip
