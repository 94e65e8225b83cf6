"""What every test shares: one torch thread a process, and how hypothesis searches."""

import os

from hypothesis import HealthCheck, settings

# Before torch is imported anywhere: two workers with two threads each on two cores spin instead of working.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MKL_NUM_THREADS"] = "1"

# No test fails on time. The same examples every run; `pytest --hypothesis-profile=search` looks for new ones.
settings.register_profile(
    "ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("search", parent=settings.get_profile("ci"), derandomize=False, max_examples=2_000)
settings.load_profile("ci")
