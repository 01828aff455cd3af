"""Laws are checked on the same examples in every run; ``make search`` looks for new counterexamples.

No example has a deadline: how long it takes says something about the machine, not about the law.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
