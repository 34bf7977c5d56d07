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
        self._shared = shared
        self._locks: dict[int, socket.socket] = {}
        self._taken: dict[str, str] = {}
        self._used: set[str] = set()
        self._next = 0
        self._second = 0 if shared else self._choose(cluster)

    def _choose(self, cluster: int) -> int:
        for step in range(_NETWORKS):
            second = _FIRST + (cluster + step) % _NETWORKS
            if self._own(second):
                return second
        raise OSError(f"no free pod network: {_NETWORKS} clusters run on this machine")

    def _own(self, second: int) -> bool:
        """Whether the octet belongs to this cluster; locks it if it is free.

        An abstract Unix socket belongs to the network namespace, as the loopback addresses do, and the kernel frees it when
        its process ends, however that happens.
        """
        if second in self._locks:
            return True
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0localcluster-pod-network-127.{second}")
        except OSError:
            lock.close()
            return False
        self._locks[second] = lock
        return True

    def acquire(self, uid: str, wanted: str = "") -> str:
        """The pod's address; `wanted` is the one it had before, kept when it is free. Raises OSError when none is left."""
        if self._shared:
            return LOOPBACK
        if uid not in self._taken:
            address = wanted if wanted not in self._used and self._ours(wanted) else self._free()
            self._taken[uid] = address
            self._used.add(address)
        return self._taken[uid]

    def _ours(self, address: str) -> bool:
        """Whether no other cluster has the network of the address; a restarted cluster may get another network than before."""
        parts = address.split(".")
        if len(parts) != 4 or parts[0] != "127" or not parts[1].isdecimal():
            return False
        return _FIRST <= int(parts[1]) < _FIRST + _NETWORKS and self._own(int(parts[1]))

    def _free(self) -> str:
        size = 256 * 254
        for _ in range(size):
            third, fourth = divmod(self._next, 254)
            # Round robin, not lowest first: a peer may still use an address that was just released.
            self._next = (self._next + 1) % size
            address = f"127.{self._second}.{third}.{fourth + 1}"
            if address not in self._used:
                return address
        raise OSError("no free pod address: delete finished pods")

    def release(self, uid: str) -> None:
        """Release the pod's address."""
        address = self._taken.pop(uid, None)
        if address is not None:
            self._used.discard(address)

    def close(self) -> None:
        """Release the networks."""
        for lock in self._locks.values():
            lock.close()
        self._locks.clear()
