"""The key pair of one job, for ssh from its launcher to its workers."""

from base64 import b64encode
from collections.abc import Mapping
from typing import Any


def new_key_pair() -> Mapping[str, Any]:
    """The `data` of a Secret of type kubernetes.io/ssh-auth: a fresh ECDSA key on P-521, as mpi-operator makes them.

    P-521 is approved by FIPS 140, so that it works in every image; Ed25519 is not everywhere.
    """
    # 8 MB of memory, which an operator without such jobs need not have.
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    return {"data": {"ssh-privatekey": b64encode(private).decode(), "ssh-publickey": b64encode(public).decode()}}
