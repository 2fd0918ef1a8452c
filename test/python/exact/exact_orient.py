"""Signs of orientation determinants by integer arithmetic, for whole arrays of cases."""

import numpy as np


def integers(values):
    """Each row of doubles times its own positive power of two, as exact integers."""
    mantissa, exponent = np.frexp(values)
    mantissa = (mantissa * 2.0**53).astype(np.int64)
    exponent = exponent.astype(np.int64)
    exponent[mantissa == 0] = np.iinfo(np.int64).max
    shift = exponent - exponent.min(axis=1, keepdims=True)
    shift[mantissa == 0] = 0
    return np.left_shift(mantissa.astype(object), shift.astype(object))


def sign(values):
    return (values > 0).astype(np.int8) - (values < 0).astype(np.int8)


def orient2d(cases):
    """Rows of ax ay bx by cx cy; scaling x and y each by a positive factor keeps the sign."""
    x, y = integers(cases[:, 0::2]), integers(cases[:, 1::2])
    return sign((x[:, 0] - x[:, 2]) * (y[:, 1] - y[:, 2]) - (y[:, 0] - y[:, 2]) * (x[:, 1] - x[:, 2]))


def cross_sign(cases):
    """Rows of ax ay bx by cx cy dx dy: (b - a) x (d - c)."""
    x, y = integers(cases[:, 0::2]), integers(cases[:, 1::2])
    return sign((x[:, 1] - x[:, 0]) * (y[:, 3] - y[:, 2]) - (y[:, 1] - y[:, 0]) * (x[:, 3] - x[:, 2]))
