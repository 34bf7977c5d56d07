"""How often a process that holds many objects looks for garbage."""

import gc

# Collections are made so many times rarer: next to nothing here lies in cycles, and to look at all jobs, pods and plans again
# and again took one part in fifteen of the CPU time of a process with much to do.
RARER = 8
# One that looks at everything is a pause, of some 25 ms in a server of ten thousand pods: it comes so many times rarer still.
WHOLE_RARER = 10


def collect_garbage_rarely() -> None:
    """Leave what the imports made alone, and look for garbage more rarely than Python does by itself."""
    gc.collect()
    gc.freeze()
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young * RARER, middle, old * WHOLE_RARER)
