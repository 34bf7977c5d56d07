"""``python -m jobcommon.cli`` is ``jobcommon``."""

from jobcommon.cli.start import main

main()
