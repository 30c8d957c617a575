#!/usr/bin/env python3
"""Assignment problems with the cost of scipy's solution, for tests/models/matcher_test.cpp.

    python3 scripts/golden/make_matcher.py tests/golden/matcher/cases.txt

One problem per line: rows columns cost v v v ... (row-major; "inf" forbids a pair). Small integers make ties;
a few problems are as wide as those of the matcher.
"""
import sys

import numpy as np
from scipy.optimize import linear_sum_assignment

r = np.random.default_rng(20)
lines = []
while len(lines) < 1000:
    i = len(lines)
    rows, columns = r.integers(1, 9, 2)
    if i % 50 == 0:
        rows, columns = r.integers(1, 12), r.integers(30, 60)
    if i % 100 == 1:
        rows, columns = 12, 12
    kind = i % 4
    if kind == 0:
        cost = r.integers(0, 4, (rows, columns)).astype(float)      # many ties
    elif kind == 1:
        cost = r.integers(-99, 100, (rows, columns)).astype(float)
    elif kind == 2:
        cost = np.round(r.normal(size=(rows, columns)), 2)
    else:
        cost = r.integers(0, 10, (rows, columns)).astype(float)
        cost[r.random(cost.shape) < 0.2] = np.inf
    try:
        a, b = linear_sum_assignment(cost)
    except ValueError:  # infeasible
        continue
    lines.append(" ".join([str(rows), str(columns), f"{cost[a, b].sum():.10g}"] + [f"{v:g}" for v in cost.ravel()]))
with open(sys.argv[1], "w") as f:
    f.write("\n".join(lines) + "\n")
