"""For all tests."""

import signal

# What a shell starts in the background ignores SIGINT, and hands that on; some tests end a cluster with Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
