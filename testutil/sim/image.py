"""Booted API servers at the price of a copy.

Installing a CRD takes tenths of a second, most of it for compiling schemas and rules. A process does it once for each set of
frameworks; every later server starts from what was stored then.
"""

from collections.abc import Sequence

import msgspec

from jobcommon.framework import Framework
from jobcommon.testutil.builders import START
from jobcommon.testutil.sim.user import install
from localcluster import ApiServer, Controllers, Env
from localcluster.model import Entry, MemoryJournal, Obj, Resource, resources_of

_HISTORY = 4096


class _Copy(MemoryJournal):
    """What another server had stored."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries

    def load(self) -> Sequence[Entry]:
        """See `Journal.load`."""
        return self._entries


class _Image:
    def __init__(self, frameworks: Sequence[Framework]) -> None:
        server = ApiServer(Env.seeded(0, lambda: START), compiled=_resources)
        for framework in frameworks:
            install(server, framework)
        Controllers(server).step()
        self.entries = [
            Entry(item.rv, table.name, item.namespace, item.name, item.obj)
            for table in server.storage.tables.values()
            for item in table.items()
        ]
        # By identity: the stored objects are shared and never changed.
        self.compiled = {id(e.obj): _resources(e.obj) for e in self.entries if e.table.startswith("customresourced") and e.obj}

    def resources(self, definition: Obj) -> list[Resource]:
        """What a definition serves; compiled before if it is ours."""
        known = self.compiled.get(id(definition))
        return known if known is not None else _resources(definition)


_compiled: dict[bytes, list[Resource]] = {}


def _resources(definition: Obj) -> list[Resource]:
    """What a definition serves, which follows from its spec alone; compiled once for all images."""
    spec = msgspec.json.encode(definition["spec"])
    found = _compiled.get(spec)
    if found is None:
        found = _compiled[spec] = resources_of(definition)
    return found


_images: dict[tuple[str, ...], _Image] = {}


def boot(frameworks: Sequence[Framework], env: Env) -> ApiServer:
    """A server with the kinds of `frameworks` installed, at a cost of about a millisecond from the second time on."""
    found = prepare(frameworks)
    return ApiServer(env, journal=_Copy(found.entries), history=_HISTORY, compiled=found.resources)


def prepare(frameworks: Sequence[Framework]) -> _Image:
    """What `boot` starts from; made the first time that it is asked for."""
    names = tuple(framework.name for framework in frameworks)
    found = _images.get(names)
    if found is None:
        found = _images[names] = _Image(frameworks)
    return found
