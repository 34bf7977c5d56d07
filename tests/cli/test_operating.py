"""What `jobcommon operator` does to its own process."""

import gc

from cli.operating import RARER, collect_garbage_rarely


def test_garbage_is_still_collected_but_more_rarely() -> None:
    before = gc.get_threshold()
    try:
        collect_garbage_rarely()
        assert gc.isenabled()
        assert gc.get_threshold() == (before[0] * RARER, *before[1:])
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
