# A function of the kind that makes cold starts slow: it imports numpy and
# scipy and works a little with them.
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.stats

x = np.arange(100.0)
slope = scipy.optimize.minimize(lambda p: ((3 * x - p[0] * x) ** 2).sum(), [1.0]).x[0]
inverse = scipy.linalg.inv(np.eye(8) * 2)
assert abs(slope - 3) < 1e-3 and inverse[0, 0] == 0.5 and scipy.stats.norm.cdf(0) == 0.5
print("READY", flush=True)
