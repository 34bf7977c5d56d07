"""docs/reference: the public names with their signatures, fields and docstrings, as Markdown.

It is read from the source and not from the running objects: annotations and defaults stand as they were written, and the pages
are the same under every version of Python.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import zip_longest
from pathlib import Path

SURFACES: Mapping[str, str] = {
    "jobcommon": "What authors and users of a framework need.",
    "jobcommon.controller": "The parts of a controller, without I/O: for a controller of your own.",
}
"""By module, what its page is for."""
WRITE = "GOLDEN=write pytest tests/test_reference.py"
WIDTH = 100
Function = ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.AnnAssign | ast.Assign
Definition = ast.Module | ast.ClassDef | Function | Assignment


def pages() -> dict[str, str]:
    """By file name, the pages of docs/reference."""
    return {f"{surface}.md": _page(surface, purpose) for surface, purpose in SURFACES.items()}


def _page(surface: str, purpose: str) -> str:
    names = sorted(import_module(surface).__all__, key=lambda name: (name.lower(), name))
    head = f"# {surface}\n\n{purpose} Written from the docstrings by `{WRITE}`.\n"
    return head + "".join(f"\n## {name}\n\n{_entry(_definition(surface, name))}" for name in names)


def mentioned() -> dict[str, set[str]]:
    """By public name, the words in its annotations and bases."""
    definitions = {name: _definition(surface, name) for surface in SURFACES for name in import_module(surface).__all__}
    return {name: set(re.findall(r"\w+", " ".join(_annotations(node)))) for name, node in definitions.items()}


def _annotations(node: Definition) -> Iterator[str]:
    functions = node.body if isinstance(node, ast.ClassDef) else [node]
    for item in functions:
        if isinstance(item, Function) and (item.name == "__init__" or not item.name.startswith("_")):
            yield _signature(item)
        elif isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            yield ast.unparse(item.annotation)
    yield from (ast.unparse(base) for base in node.bases) if isinstance(node, ast.ClassDef) else ()


# -- where a name is defined -----------------------------------------------------------------------------------------------


@cache
def _source(module: str) -> ast.Module:
    """The source of a module; of one with a stub the stub."""
    path = Path(str(import_module(module).__file__))
    stub = path.with_suffix(".pyi")
    return ast.parse((stub if stub.exists() else path).read_text(encoding="utf-8"))


def _definition(module: str, name: str) -> Definition:
    """What the name is, wherever the module has it from; a module of that name when it has none."""
    for item in _source(module).body:
        if isinstance(item, ast.ImportFrom) and item.module and name in [alias.asname or alias.name for alias in item.names]:
            return _definition(f"{module}.{item.module}" if item.level else item.module, name)
        if isinstance(item, ast.ClassDef | Function) and item.name == name:
            return item
        if isinstance(item, Assignment) and name in [ast.unparse(target) for target in _targets(item)]:
            return item
    return _source(f"{module}.{name}")


def _targets(item: Assignment) -> list[ast.expr]:
    return [item.target] if isinstance(item, ast.AnnAssign) else item.targets


def _documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement with the string below it."""
    for item, below in zip_longest(body, body[1:]):
        value = below.value if isinstance(below, ast.Expr) else None
        yield item, value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


# -- one name --------------------------------------------------------------------------------------------------------------


def _entry(node: Definition) -> str:
    match node:
        case ast.Module():
            constants = [ast.unparse(item) for item in node.body if isinstance(item, ast.Assign)]
            return _code("\n".join(constants)) + _prose(ast.get_docstring(node))
        case ast.ClassDef():
            return _class(node)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return _code(_signature(node)) + _prose(ast.get_docstring(node))
        case _:
            return _code(_assignment(node))


def _class(node: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    fields = [*_decorators(node), f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    members = []
    for item, below in _documented(node.body):
        if isinstance(item, Assignment) and not ast.unparse(_targets(item)[0]).startswith(("_", "model_config")):
            fields.append(f"    {_assignment(item)}")
            members.append(_member(ast.unparse(_targets(item)[0]), below or _description(item.value)))
        elif isinstance(item, Function) and item.name == "__init__":
            fields.append(f"    {_signature(item)}".replace("\n", "\n    "))
            members += [_member(name, text) for name, text in _attributes(item)]
        elif isinstance(item, Function) and not item.name.startswith("_"):
            members.append(_member(_signature(item), ast.get_docstring(item) or ""))
    return _code("\n".join(fields)) + _prose(ast.get_docstring(node)) + "".join(members)


def _attributes(init: Function) -> Iterator[tuple[str, str]]:
    """The attributes that have a docstring."""
    for item, below in _documented(init.body):
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Attribute) and below:
            yield f"{item.target.attr}: {ast.unparse(item.annotation)}", below


def _member(code: str, text: str) -> str:
    return f"\n`{' '.join(code.split())}`\n{_prose(text)}" if text else ""


def _assignment(item: Assignment) -> str:
    """As it is written, but of a pydantic or dataclass field no more than its default."""
    value = item.value
    if isinstance(item, ast.Assign) or not isinstance(value, ast.Call) or ast.unparse(value.func) not in ("Field", "field"):
        return ast.unparse(item)
    default = [ast.unparse(argument) for argument in value.args[:1]]
    for keyword in value.keywords:
        if keyword.arg == "default":
            default.append(ast.unparse(keyword.value))
        elif keyword.arg == "default_factory":
            default.append(f"{ast.unparse(keyword.value)}()" if isinstance(keyword.value, ast.Name) else "...")
    return " = ".join([f"{ast.unparse(item.target)}: {ast.unparse(item.annotation)}", *default])


def _description(value: ast.expr | None) -> str:
    """That of a pydantic field."""
    keywords = value.keywords if isinstance(value, ast.Call) else []
    return next((str(ast.literal_eval(keyword.value)) for keyword in keywords if keyword.arg == "description"), "")


def _decorators(node: ast.ClassDef | Function) -> list[str]:
    return [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]


def _signature(node: Function) -> str:
    decorators = _decorators(node)
    result = f" -> {ast.unparse(node.returns)}" if node.returns and node.name != "__init__" else ""
    if "@property" in decorators:
        return f"{node.name}{result.replace(' ->', ':')}"
    head = (
        "".join(f"{line}\n" for line in decorators)
        + ("async " if isinstance(node, ast.AsyncFunctionDef) else "")
        + f"def {node.name}"
    )
    parameters = [text for text in _parameters(node.args) if text not in ("self", "cls")]
    line = f"{head}({', '.join(parameters)}){result}"
    return line if len(line) <= WIDTH else f"{head}(\n" + "".join(f"    {text},\n" for text in parameters) + f"){result}"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    unset: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    for argument, default in zip(positional, [*unset, *arguments.defaults], strict=True):
        yield _parameter(argument, default)
    if arguments.vararg:
        yield f"*{_parameter(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg:
        yield f"**{_parameter(arguments.kwarg, None)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    if default is None:
        return ast.unparse(argument)
    return f"{ast.unparse(argument)}{' = ' if argument.annotation else '='}{ast.unparse(default)}"


# -- Markdown --------------------------------------------------------------------------------------------------------------


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _prose(docstring: str | None) -> str:
    """A docstring as Markdown; what is indented after ``::`` is a block of code."""
    if not docstring:
        return ""
    paragraphs = inspect.cleandoc(docstring).replace("``", "`").replace("::\n", ":\n").split("\n\n")
    return "".join(f"\n{_paragraph(text)}\n" for text in paragraphs)


def _paragraph(text: str) -> str:
    return _code(inspect.cleandoc(text)).rstrip() if text.startswith("    ") else text
