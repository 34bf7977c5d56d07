"""No error is lost: what catches every exception uses it, raises, or logs it with its traceback."""

import ast

from tests.architecture.source import modules, tree


def _is_broad(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(name is None or ast.unparse(name) in ("Exception", "BaseException") for name in names)


def _keeps(node: ast.AST, error: str | None) -> bool:
    match node:
        case ast.Raise() | ast.Call(func=ast.Attribute(attr="exception")) | ast.keyword(arg="exc_info"):
            return True
        case ast.Name(id=name):
            return name == error
    return False


def losses(module: ast.Module) -> list[int]:
    """The lines at which any exception is caught and lost."""
    found = []
    for node in ast.walk(module):
        match node:
            case ast.ExceptHandler(type=caught, name=error, body=body) if _is_broad(caught):
                if not any(_keeps(inner, error) for statement in body for inner in ast.walk(statement)):
                    found.append(node.lineno)
            case ast.Call(func=called, args=args) if ast.unparse(called) in ("suppress", "contextlib.suppress"):
                found += [node.lineno for caught in args if _is_broad(caught)]
    return sorted(found)


def test_no_error_is_lost() -> None:
    found = {str(module): lines for module in modules() if (lines := losses(tree(module)))}
    assert found == {}, "name the exceptions that are expected; log any other with its traceback"
