"""Checks the style rules that `swift format` does not cover. Prints one line for each breach, as FILE:LINE: MESSAGE.

- a source file has at most 400 lines, a line at most 120 columns, a function at most 70 lines;
- a source file begins with a comment that says what it is for;
- targets that must stay small do not import Foundation;
- the engine does not depend on protocols;
- internal errors are checked with `precondition`; `fatalError` and `try!` are not allowed in the sources.
"""

import re
import sys
from pathlib import Path

FILE_LINES = 400
COLUMNS = 120
FUNCTION_LINES = 70
# Uses of a protocol. Only the log may use a protocol, because messages in it are framed for RSocket.
PROTOCOL = re.compile(
    r"^import (HTTP2|RSocket)\b|\b(connection|stream|subscriber|publisher|listing)\.(http|rsocket|exchange)\b")
WITHOUT_FOUNDATION = set(
    "Bytes ForebayWire NATS Replay RSocket HTTP2 Core EventLoop Store Server forebayd Measure Simulator "
    "JetStreamModel".split())

ROOT = Path(__file__).resolve().parent.parent
FUNCTION = re.compile(
    r"^( *)(?:@\w+(?:\([^)]*\))? +)*(?:[a-z]+(?:\([a-z]+\))? +)*(?:func\b|init[?(<]|deinit\b|subscript\b)"
)
FOUNDATION = re.compile(r"^\s*(?:@\w+ +)*(?:public |internal |package )?import +(?:\w+ +)?Foundation\w*\b")
FORBIDDEN = re.compile(r"\b(?:fatalError\(|try!)")


def function_lengths(lines: list[str]):
    """Yields (first line, length) of every Swift function. In formatted code, the closing brace is indented like
    `func`."""
    for first, line in enumerate(lines):
        match = FUNCTION.match(line)
        if not match or line.rstrip().endswith("}"):
            continue
        closing = match.group(1) + "}"
        for last in range(first + 1, len(lines)):
            text = lines[last]
            if text.rstrip() == closing:
                yield first + 1, last - first + 1
                break
            if text.strip() and len(text) - len(text.lstrip()) < len(match.group(1)):
                break  # the enclosing scope ended: a protocol requirement without a body


def swift_breaches(path: Path, lines: list[str]):
    if path.name != "Package.swift" and not (lines and lines[0].startswith("//")):
        yield 1, "the file does not begin with a comment that says what it is for"
    for first, length in function_lengths(lines):
        if length > FUNCTION_LINES:
            yield first, f"the function has {length} lines, {FUNCTION_LINES} are allowed"
    if path.parts[0] != "Sources":
        return
    for number, line in enumerate(lines, 1):
        if (path.parts[1] == "Peers" or path.parts[2] in WITHOUT_FOUNDATION) and FOUNDATION.match(line):
            yield number, f"{path.parts[2]} must not import Foundation"
        if path.parts[1] == "Engine" and "Log" not in path.parts and PROTOCOL.search(line):
            yield number, "the engine must not depend on a protocol: move this to Sources/Peers"
        if FORBIDDEN.search(line.split("//")[0]):
            yield number, "throw a typed error or use a precondition instead"


def breaches(path: Path, lines: list[str]):
    if len(lines) > FILE_LINES:
        yield FILE_LINES + 1, f"the file has {len(lines)} lines, {FILE_LINES} are allowed"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            yield number, f"the line has {len(line)} columns, {COLUMNS} are allowed"
    if path.suffix == ".swift":
        yield from swift_breaches(path, lines)


def main() -> int:
    files = [ROOT / "Package.swift"]
    for folder in ("Sources", "Tests", "Examples", ".ci"):
        files += sorted(f for f in (ROOT / folder).rglob("*") if f.suffix in (".swift", ".py", ".c", ".h"))
    found = 0
    for file in files:
        path = file.relative_to(ROOT)
        for number, what in breaches(path, file.read_text().split("\n")[:-1]):
            print(f"{path}:{number}: {what}")
            found += 1
    print(f"style: {len(files)} files, {found} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
