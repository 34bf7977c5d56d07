"""Loopback addresses for pods."""

import sys

LOOPBACK = "127.0.0.1"


class AddressPool:
    """Hands out 127.x.y.z addresses, one a pod, the same one as long as the pod exists.

    `cluster` (0–199) chooses the second octet so that two clusters on one machine rarely meet. Only Linux answers on all of
    127.0.0.0/8; elsewhere, and with ``shared``, every pod has 127.0.0.1.
    """

    def __init__(self, cluster: int = 0, *, shared: bool = sys.platform != "linux") -> None:
        self._second = 20 + cluster % 200
        self._shared = shared
        self._taken: dict[str, str] = {}
        self._used: set[str] = set()
        self._next = 0

    def acquire(self, uid: str, wanted: str = "") -> str:
        """The pod's address; `wanted` is the one it had before, kept when it is free. Raises OSError when none is left."""
        if self._shared:
            return LOOPBACK
        if uid not in self._taken:
            address = wanted if wanted.startswith("127.") and wanted not in self._used else self._free()
            self._taken[uid] = address
            self._used.add(address)
        return self._taken[uid]

    def _free(self) -> str:
        size = 256 * 254
        for _ in range(size):
            third, fourth = divmod(self._next, 254)
            # Round robin, not lowest first: an address just given back may still be in a peer's memory.
            self._next = (self._next + 1) % size
            address = f"127.{self._second}.{third}.{fourth + 1}"
            if address not in self._used:
                return address
        raise OSError("no free pod address: delete finished pods")

    def release(self, uid: str) -> None:
        """Give the pod's address back."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._used.discard(address)
