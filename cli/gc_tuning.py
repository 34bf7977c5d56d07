"""Tuning of Python's garbage collector for a process with many long-lived objects."""

import gc

# Factor for the thresholds of the young generation. Next to nothing here is in reference cycles, and traversing all jobs, pods
# and plans again and again took a fifteenth of the CPU time of a busy process.
RARER = 8
# Further factor for full collections, each a pause of some 25 ms in a server with ten thousand pods.
WHOLE_RARER = 10


def collect_garbage_rarely() -> None:
    """Exempt the objects of the imports from collection, and collect less often than by Python's defaults."""
    gc.collect()
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young * RARER, middle, old * WHOLE_RARER)
