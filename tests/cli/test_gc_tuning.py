"""What `jobcommon operator` and `jobcommon up` do to their own process."""

import gc

from jobcommon.cli.gc_tuning import RARER, WHOLE_RARER, collect_garbage_rarely


def test_garbage_is_still_collected_but_more_rarely() -> None:
    before = gc.get_threshold()
    try:
        collect_garbage_rarely()
        assert gc.isenabled()
        assert gc.get_threshold() == (before[0] * RARER, before[1], before[2] * WHOLE_RARER)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
