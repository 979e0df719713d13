"""The least of a function of a few numbers without derivatives, by scipy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from program import InputError


def minimise(
    function: Callable[[Sequence[float]], float], start: Sequence[float], tolerance: float
) -> list[float]:
    """Nelder and Mead's, from first steps of half a unit, until the values at all corners
    agree within the tolerance; again from where it stopped until that gains no more."""
    try:
        import numpy
        from scipy import optimize
    except ImportError as error:
        raise InputError(
            f"needs numpy and scipy, on Debian python3-numpy and python3-scipy: {error}"
        ) from error
    step = 0.5
    at = numpy.array(start, dtype=float)
    before = function(at)
    while True:
        corners = numpy.vstack([at, at + step * numpy.eye(len(at))])
        options = {
            "initial_simplex": corners,
            "fatol": tolerance,
            "xatol": numpy.inf,
            "maxfev": 20_000,
        }
        found = optimize.minimize(function, at, method="Nelder-Mead", options=options)
        at = found.x
        if before - found.fun <= tolerance:
            return at.tolist()
        before = found.fun


@dataclass(frozen=True)
class Least:
    point: list[float]
    deviations: list[float]  # of each number, from the curvature there
    loss: float
    before: float  # the loss where it started


def least_squares(
    residuals: Callable[[Sequence[Sequence[float]]], list[list[float]]],
    start: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    weights: Sequence[float],
) -> Least:
    """Of the sum of squares of as many residuals as there are numbers, and of weight x
    log(1 + square) of the others: a large one counts for less than its square. The function
    gives the residuals of several points at once."""
    import numpy
    from scipy import optimize

    count = len(start)
    lowest, highest = numpy.array(low), numpy.array(high)
    step = 0.05

    def one(point):
        return numpy.array(residuals([point])[0])

    def slopes(point):
        ways = numpy.where(point + step <= highest, step, -step)
        first, *others = residuals([point, *(point + numpy.diag(ways))])
        return (numpy.array(others) - numpy.array(first)).T / ways

    def rho(squares):
        result = numpy.vstack([squares, numpy.ones_like(squares), numpy.zeros_like(squares)])
        flat = 1 + squares[count:]
        share = numpy.array(weights)
        result[:, count:] = [share * numpy.log(flat), share / flat, -share / flat**2]
        return result

    room = 1e-6 * (highest - lowest)
    at = numpy.clip(numpy.array(start, dtype=float), lowest + room, highest - room)
    found = optimize.least_squares(
        one, at, slopes, (lowest, highest), loss=rho, xtol=1e-4, ftol=1e-5, max_nfev=60
    )
    slope = slopes(found.x)
    curvature = slope.T @ (rho(found.fun**2)[1][:, None] * slope)
    deviations = numpy.sqrt(numpy.diag(numpy.linalg.inv(curvature)))
    before = float(rho(one(at) ** 2)[0].sum())
    return Least(found.x.tolist(), deviations.tolist(), 2 * found.cost, before)
