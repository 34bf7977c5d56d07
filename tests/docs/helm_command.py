"""What the commands of Helm that the documents use say."""

import argparse
from collections.abc import Sequence

import yaml


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What the words of a command say. What it does not know is an error."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    install, uninstall = commands.add_parser("install"), commands.add_parser("uninstall")
    for command in (install, uninstall):
        command.add_argument("name")
        command.add_argument("--namespace", default="default")
    install.add_argument("chart")
    install.add_argument("--create-namespace", action="store_true")
    install.add_argument("--skip-crds", action="store_true")
    install.add_argument("--values", "-f", action="append", default=[])
    install.add_argument("--set", action="append", default=[])
    return parser.parse_args(words)


def values(settings: Sequence[str]) -> dict[str, object]:
    """What ``--set PATH=VALUE`` makes: a list of ``{a,b}``, else what YAML makes of the value."""
    found: dict[str, object] = {}
    for setting in settings:
        path, _, value = setting.partition("=")
        node = found
        *parents, last = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})  # type: ignore[assignment]
        node[last] = value[1:-1].split(",") if value.startswith("{") else yaml.safe_load(value)
    return found
