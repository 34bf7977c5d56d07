"""Loopback addresses for pods."""

import socket
import sys

LOOPBACK = "127.0.0.1"
_FIRST, _NETWORKS = 20, 200


class AddressPool:
    """Allocates 127.x.y.z addresses, one for each pod, stable as long as the pod exists.

    The second octet belongs to this cluster only: `cluster` (0 to 199) is the first choice, else the next free one. Only Linux
    answers on all of 127.0.0.0/8; elsewhere, and with ``shared``, every pod has 127.0.0.1. Raises OSError when every octet is
    taken.
    """

    def __init__(self, cluster: int = 0, *, shared: bool = sys.platform != "linux") -> None:
        self._lock = None if shared else self._choose(cluster)
        self._taken: dict[str, str] = {}
        self._next = 0

    def _choose(self, cluster: int) -> socket.socket:
        """Lock an octet.

        An abstract Unix socket belongs to the network namespace, as the loopback addresses do, and the kernel frees it when
        its process ends, however that happens.
        """
        lock = socket.socket(socket.AF_UNIX)
        for step in range(_NETWORKS):
            self._second = _FIRST + (cluster + step) % _NETWORKS
            try:
                lock.bind(f"\0localcluster-pod-network-127.{self._second}")
            except OSError:
                continue
            return lock
        lock.close()
        raise OSError(f"no free pod network: {_NETWORKS} clusters run on this machine")

    def acquire(self, uid: str) -> str:
        """The pod's address. Raises OSError when none is left."""
        if self._lock is None:
            return LOOPBACK
        if uid not in self._taken:
            self._taken[uid] = self._free(set(self._taken.values()))
        return self._taken[uid]

    def _free(self, used: set[str]) -> str:
        size = 256 * 254
        for _ in range(size):
            third, fourth = divmod(self._next, 254)
            # Round robin, not lowest first: a peer may still use an address that was just released.
            self._next = (self._next + 1) % size
            address = f"127.{self._second}.{third}.{fourth + 1}"
            if address not in used:
                return address
        raise OSError("no free pod address: delete finished pods")

    def release(self, uid: str) -> None:
        """Release the pod's address."""
        self._taken.pop(uid, None)

    def close(self) -> None:
        """Release the network."""
        if self._lock is not None:
            self._lock.close()
