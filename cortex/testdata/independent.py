"""The memory's arithmetic once more, in another language and by other means:
decimals of 80 digits for the factors, exact fractions for the weights.

    python3 independent.py > independent.txt

Lines of the output, numbers in 10^-9 where they are weights, factors or scores:

    fade NANOSECONDS R
    growth N A
    score LASTUSE_NS ACCESSES CITATIONS IMPORTANCE PINNED w w w w w SCORE
    learn DELTA w w w w w COUNTED (R A C D)... w w w w w | degenerate
"""

import random
from decimal import ROUND_HALF_EVEN, Decimal, getcontext
from fractions import Fraction

getcontext().prec = 80
ONE = 10**9
DAY = 86400 * 10**9
COLD = [250000000, 150000000, 300000000, 200000000, 100000000]


def nano(d):
    return int((d * ONE).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def fade(ns):
    return nano((Decimal(-ns) / Decimal(90 * DAY)).exp())


def growth(n):
    return min(ONE, nano(Decimal(1 + n).ln() / Decimal(1001).ln()))


def score(ns, accesses, citations, importance, pinned, w):
    f = [fade(ns), growth(accesses), growth(citations), importance * ONE // 10]
    mean = Fraction(sum(a * b for a, b in zip(w, f)), sum(w[:4]))
    s = round(mean)  # half to even
    return max(s, 700000000) if pinned else s


def learn(delta, w, counted):
    share = ONE - w[4]
    p = [sum(f[i] for f in counted) for i in range(4)]
    if sum(p) == 0:
        return None
    t = [Fraction(share * x, sum(p)) for x in p]
    moved = [max(Fraction(0), w[i] + delta * (t[i] - w[i]) / 20) for i in range(4)]
    if sum(moved) == 0:
        return None
    exact = [m * share / sum(moved) for m in moved]
    new = [int(e) for e in exact]
    rest = sorted(range(4), key=lambda i: (new[i] - exact[i], i))
    for i in rest[: share - sum(new)]:
        new[i] += 1
    return new + [w[4]]


def weights(r):
    cuts = sorted(r.randrange(900000001) for _ in range(3))
    if r.random() < 0.2:
        cuts[1] = cuts[0]
    return [cuts[0], cuts[1] - cuts[0], cuts[2] - cuts[1], 900000000 - cuts[2], 100000000]


def factors(r):
    return [r.choice([0, ONE, r.randrange(ONE + 1)]) for _ in range(3)] + [r.randrange(11) * ONE // 10]


def main():
    r = random.Random(20261115)
    for ns in [0, 1, 3888000, 7776000, 10**9, DAY, 90 * DAY, 180 * DAY, 1900 * DAY, 1927 * DAY, 1928 * DAY, 1980 * DAY, 1981 * DAY, 36500 * DAY]:
        print("fade", ns, fade(ns))
    for _ in range(300):
        ns = int(2000 * DAY * r.random() ** 3)
        print("fade", ns, fade(ns))
    for n in range(0, 1005):
        print("growth", n, growth(n))
    for _ in range(200):
        ns, a, c, d, pin = int(400 * DAY * r.random() ** 2), r.randrange(1200), r.randrange(40), r.randrange(11), r.randrange(2)
        w = weights(r)
        print("score", ns, a, c, d, pin, *w, score(ns, a, c, d, pin, w))
    cases = [(1, COLD, [[ONE, 0, 0, 300000000]]), (-1, COLD, [[ONE, 0, 0, 300000000]]), (1, COLD, [[0, 0, 0, 0]]),
             (-1, [0, 0, 0, 900000000, 100000000], [[0, 0, 0, ONE]]), (1, [225000000] * 4 + [100000000], [[1, 1, 1, 0]])]
    for _ in range(400):
        cases.append((r.choice([1, -1]), weights(r), [factors(r) for _ in range(r.randrange(1, 6))]))
    for delta, w, counted in cases:
        new = learn(delta, w, counted)
        print("learn", delta, *w, len(counted), *[x for f in counted for x in f], *(new or ["degenerate"]))


main()
