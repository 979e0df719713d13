"""The least of a function of a few numbers without derivatives, by scipy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
