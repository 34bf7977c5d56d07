"""``python -m jobcommon.cli`` is ``jobcommon``."""

from jobcommon.cli.main import main

main()
