"""``python -m cli`` is ``jobcommon``."""

from cli.main import main

main()
