"""Intervals over conversations that studies alone need: of any statistic, and of sums of several means.

A statistic of any items (Krippendorff's alpha, a correlation) is computed again without each conversation in turn: the
jackknife. From 50 conversations on it is bootstrapped, like a mean. A sum of several means, each over its own items, is a mean
over two kinds of questions, weighted as one wants the kinds to be mixed; one bootstrap, or one standard error, serves all weights.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from mtrag_nb.core.types import DataError
from mtrag_nb.evaluation.statistics import (
    _MANY,
    _NOWHERE,
    LEAST,
    Interval,
    _around,
    _codes,
    _draws,
    _jackknife_error,
)


def _column_samples(values, codes, k: int, resamples: int) -> np.ndarray:
    "Resampled means of the columns of `values` [items, columns; NaN: no value]: [resamples, columns]."
    known = (~np.isnan(values)).astype(float)
    sums, counts = np.zeros((2, k, values.shape[1]))
    np.add.at(sums, codes, np.nan_to_num(values) * known)
    np.add.at(counts, codes, known)
    with np.errstate(invalid="ignore"):
        blocks = _draws(k, resamples)
        return np.concatenate([(w @ sums) / (w @ counts) for w in blocks])


def _percentiles(
    samples: np.ndarray, level: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    "Percentile intervals of columns [resamples, columns]; NaN (nothing with a value drawn) is left out."
    tail = (1 - level) / 2
    some = np.isfinite(samples).any(axis=0)
    out = np.full((2, samples.shape[1]), math.nan)
    out[:, some] = np.nanquantile(samples[:, some], [tail, 1 - tail], axis=0)
    return out[0], out[1]


def sum_intervals(
    columns: np.ndarray,  # [items, columns], NaN: the item does not count in the column
    clusters: Sequence,  # the conversation of each item
    weights: np.ndarray,  # [sums, columns]
    level: float = 0.95,
) -> list[Interval]:  # [sums]
    "Weighted sums of the means of columns. Raises DataError for a column without a value."
    (codes, k), n = _codes(clusters), (~np.isnan(columns)).sum(axis=0)
    if not n.all():
        raise DataError("a column has no value: its mean is not known")
    means = np.nanmean(columns, axis=0)
    parts = np.zeros((k, len(n)))
    np.add.at(parts, codes, np.nan_to_num(columns - means) / n)
    spread = np.sqrt((((parts @ weights.T) ** 2).sum(axis=0)) * k / max(1, k - 1))
    values, spans = weights @ means, [_NOWHERE] * len(weights)
    if LEAST <= k < _MANY:
        spans = [_around(v, e, k - 1, level) for v, e in zip(values, spread)]
    elif k >= _MANY:
        samples = _column_samples(columns, codes, k, 10_000) @ weights.T
        found = zip(*_percentiles(samples, level), spread)
        spans = [(float(a), float(b)) if e > 1e-12 else _NOWHERE for a, b, e in found]
    return [
        Interval(float(v), *span, len(columns), k, level)
        for v, span in zip(values, spans)
    ]


def statistic_interval(
    statistic: Callable[
        [np.ndarray], float | None
    ],  # of some positions; None: undefined on these
    clusters: Sequence,  # the conversation of each item
    resamples: int = 1000,
    within: tuple[float, float] = (
        -math.inf,
        math.inf,
    ),  # what it can be: the ends are cut to it
) -> Interval:
    "Any statistic with its interval. No interval where it is undefined without one of the conversations."
    codes, k = _codes(clusters)

    def number(at):
        return math.nan if (v := statistic(at)) is None else float(v)

    value = number(np.arange(len(codes))) if k else math.nan
    span = _NOWHERE
    if LEAST <= k < _MANY and not math.isnan(value):
        without = np.array([number(np.flatnonzero(codes != c)) for c in range(k)])
        if not np.isnan(without).any():
            span = _around(value, _jackknife_error(without), k - 1)
    elif k >= _MANY and not math.isnan(value):
        members = [np.flatnonzero(codes == c) for c in range(k)]
        drawn = (w.astype(int) for block in _draws(k, resamples) for w in block)
        picked = (np.concatenate([*map(np.repeat, members, w)]) for w in drawn)
        (low,), (high,) = _percentiles(np.array([*map(number, picked)])[:, None])
        span = float(low), float(high)
    if span[0] is not None:
        span = max(within[0], span[0]), min(within[1], span[1])
    return Interval(None if math.isnan(value) else value, *span, len(codes), k)
