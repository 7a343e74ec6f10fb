"""Identification of robots: which parameters measurements tell, which motions excite them, and their values from measurements."""

from catena.identification.regressor import linear_parameters, regressor

__all__ = ["linear_parameters", "regressor"]
