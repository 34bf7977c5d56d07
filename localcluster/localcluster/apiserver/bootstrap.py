"""The objects of a new cluster, those of `bootstrap.json`."""

import json
from functools import cache
from importlib import resources
from typing import Any

from localcluster.apiserver.env import Env
from localcluster.apiserver.storage import Storage

Obj = dict[str, Any]

#: Served by no resource: the key that signs service-account tokens.
KEY_TABLE = "-keys"
KEY_NAME = "service-account"


def create(env: Env, storage: Storage) -> None:
    """Put them into a new store."""
    for table, namespace, name, body in _objects():
        meta = {"name": name, "uid": env.uuid(), "creationTimestamp": env.timestamp(), **body.get("metadata", {})}
        storage.put(table, namespace, name, {**body, "metadata": {**meta, **({"namespace": namespace} if namespace else {})}})
    secret = env.random.getrandbits(256).to_bytes(32, "big").hex()
    storage.put(KEY_TABLE, "", KEY_NAME, {"metadata": {"name": KEY_NAME}, "key": secret})


@cache
def _objects() -> list[tuple[str, str, str, Obj]]:
    """Table, namespace, name and content of each."""
    text = resources.files("localcluster.apiserver").joinpath("bootstrap.json").read_text()
    return [tuple(row) for row in json.loads(text)]
