"""Where to draw failures on a map, from their distances. For looking only: nothing is decided by it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LANDMARKS = 500  # above this many failures the layout is computed from landmarks


def layout(matrix: np.ndarray) -> np.ndarray:
    """Positions for plotting only: classical scaling of a distance matrix, deterministic.

    Parameters
    ----------
    matrix : distances, shape (n, n).

    Returns
    -------
    Array of shape (n, 2); failures at one place are spread a little, so that each can be clicked.
    """
    import numpy as np

    n = len(matrix)
    if n < 2:
        return np.zeros((n, 2))
    from scipy.linalg import eigh

    marks = np.unique(np.linspace(0, n - 1, min(n, LANDMARKS)).astype(int))
    squared = matrix[np.ix_(marks, marks)].astype(np.float64) ** 2
    means = squared.mean(axis=0)
    inner = -0.5 * (squared - means - means[:, None] + squared.mean())
    values, axes = eigh(inner, subset_by_index=[len(marks) - 2, len(marks) - 1])
    values, axes = values[::-1], axes[:, ::-1]
    # Eigenvectors have no sign of their own.
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), range(axes.shape[1])])
    scale = np.where(values > 1e-9, 1.0 / np.sqrt(np.maximum(values, 1e-9)), 0.0)
    # Landmark scaling (de Silva and Tenenbaum 2004): the same formula places landmarks and the rest.
    spots = -0.5 * (matrix[:, marks].astype(np.float64) ** 2 - means) @ (axes * scale)
    return spread(spots)


def spread(spots: np.ndarray) -> np.ndarray:
    """Positions with those at one place moved apart in a small spiral; changes and returns ``spots``."""
    import numpy as np

    width = float(np.ptp(spots, axis=0).max()) or 1.0
    seen: dict[tuple[float, float], int] = {}
    for spot in spots:
        place = (round(float(spot[0]) / width, 3), round(float(spot[1]) / width, 3))
        k = seen[place] = seen.get(place, -1) + 1
        radius, angle = 0.012 * width * math.sqrt(k), 2.39996 * k  # sunflower
        spot += (radius * math.cos(angle), radius * math.sin(angle))
    return spots
