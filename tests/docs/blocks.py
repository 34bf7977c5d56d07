"""The fenced blocks of the documents, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from tests.architecture.source import ROOT, documents

PARSER = MarkdownIt("commonmark").enable("table")
ENDS = {";", "&", "&&", "|", "||", "(", ")"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, and the words after it."""

    document: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks() -> list[Block]:
    """Those of every document."""
    return [block for document in documents() for block in _of(document)]


def _of(document: Path) -> Iterator[Block]:
    for token in PARSER.parse((ROOT / document).read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            language, *words = token.info.split() or [""]
            yield Block(document, (token.map or [0])[0] + 1, language, tuple(words), token.content)


def inline_code(document: Path) -> Iterator[str]:
    """The code in running text and tables."""
    for token in PARSER.parse((ROOT / document).read_text(encoding="utf-8")):
        yield from (child.content for child in token.children or () if child.type == "code_inline")


def simple_commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command of a shell script, without variables before it, redirections and comments.

    Here-documents are not known.
    """
    for line in script.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        target = False
        for word in [*lexer, ";"]:
            if word in ENDS:
                if words:
                    yield words
                words = []
            elif set(word) <= set("<>&"):
                target = True
            elif target:
                target = False
            elif words or not re.match(r"\w+=", word):
                words.append(word)
