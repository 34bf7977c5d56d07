"""The commands of Helm that docs/migration.md uses, by Helm as a library: `python helm_command.py install ...`."""

import argparse
import os

import helm_python as helm


def main() -> None:
    """Install or uninstall a release. What it does not know is an error."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    install, uninstall = commands.add_parser("install"), commands.add_parser("uninstall")
    for command in (install, uninstall):
        command.add_argument("name")
        command.add_argument("--namespace", required=True)
    install.add_argument("chart")
    install.add_argument("--create-namespace", action="store_true")
    install.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    with helm.Config(kubeconfig_path=os.environ["KUBECONFIG"], namespace=given.namespace) as config:
        if given.command == "uninstall":
            config.uninstall(given.name, timeout=180)
            return
        values: dict[str, object] = {}
        for setting in given.set:
            path, _, value = setting.partition("=")
            node = values
            *parents, last = path.split(".")
            for parent in parents:
                node = node.setdefault(parent, {})  # type: ignore[assignment]
            node[last] = value
        config.install(
            given.chart, given.name, values, namespace=given.namespace, create_namespace=given.create_namespace, timeout=180
        )


main()
