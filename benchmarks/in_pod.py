"""An operator with a service account, as in a pod: ``python -m benchmarks.in_pod DIRECTORY operator …``.

The kubelet mounts the account at a path that is the same in every pod; here it is in DIRECTORY.
"""

import base64
import sys
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from jobcommon.cli.main import main as command
from jobcommon.client import config


def mount_account(kubeconfig: Path, directory: Path) -> dict[str, str]:
    """Write the account's files into `directory`, from a kubeconfig with a token; returns the environment of its pod."""
    read = yaml.safe_load(kubeconfig.read_text())
    cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    pem = base64.b64decode(authority) if authority else Path(cluster["certificate-authority"]).read_bytes()
    for name, content in (("token", user["token"].encode()), ("ca.crt", pem), ("namespace", b"default")):
        (directory / name).write_bytes(content)
    url = urlsplit(cluster["server"])
    return {"KUBERNETES_SERVICE_HOST": str(url.hostname), "KUBERNETES_SERVICE_PORT": str(url.port), "KUBECONFIG": ""}


def main() -> None:
    """Run the command with the account in the directory that the first argument names."""
    config.SERVICE_ACCOUNT = Path(sys.argv.pop(1))
    command()


if __name__ == "__main__":
    main()
