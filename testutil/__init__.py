"""What frameworks are tested with; it needs the extra `testing`."""

from importlib.util import find_spec

if find_spec("localcluster") is None:
    raise ModuleNotFoundError("jobcommon.testutil needs: pip install 'jobcommon[testing]'", name="localcluster")
