"""Checks names and prose for words for which the field has better ones. Prints one line for each, as FILE:LINE: what.

Names are checked in Swift code, prose in comments, docstrings, messages and documents. A word that has a proper use
besides the one to be avoided (drop, detach, pending, behind) is checked only where the use is clear.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What a name must not be, and what to use instead.
NAMES = [
    (r"(say|tell|told|untold)([A-Z]\w*)?", "send…, report…, notify…; unsent, reported"),
    (r"\w*([hH]ungry|[cC]rowded)\w*", "waiting for output, for credit, for a window"),
    (r"\w*([sS]ettl(e|es|ed|ing|ement))\w*", "maintain, run, apply, finish"),
    (r"mail|\w*Mail|Mailroom", "messages, ShardMessage, inbox"),
    (r"Mirror(Link|Progress|Past)|mirrors?", "view, TopicView"),
    (r"Words|Face|HTTPFace|Carrier|[cC]arrier|face", "responses, protocol, connection, transport"),
    (r"\w*[iI]nquiry", "query"),
    (r"\w*Figures|Sight|sight|Listings?|listings?", "statistics, visibility, list requests"),
    (r"Meter|Pacing|Refill", "rate, rate limiter, credit window"),
    (r"forget\w*", "remove, discard, end, release"),
    (r"fire(Publish\w*|Dropped|dForget)", "fireAndForget"),
]
# The option gap=tell, a part of the protocol.
ALLOWED_NAMES = {
    "Sources/Wire/ForebayWire/SubscribeOptions.swift": {"tell"}, "Sources/Client/forebay": {"tell"},
    "Tests/Client/ClientTests/GRPCConnectionTests.swift": {"tell"}, "Sources/Streams": {"mirror"},
}

PROSE = [
    (r"\banew\b", "again, new, restarted"),
    (r"\bsigns? of life\b", "keepalive"),
    (r"\bwhoever\b", "a client that, any client"),
    (r"\bin a row\b", "consecutive"),
    (r"\bcomes? to nothing\b", "fails"),
    (r"\bnone such\b", "does not exist"),
    (r"\bunder way\b", "in progress, in flight"),
    (r"\bfire publish", "fire-and-forget publish"),
    (r"\ba well client\b", "a healthy client"),
    (r"\b(hungry|crowded)\b", "waiting for"),
    (r"\bbehind (it|them|what)\b", "after"),
    (r"(?:^|[.:;] )Who [^?]*$", "a client that, clients that"),
    # Except the option's value, and "cannot tell one from the other".
    (r"(?<!gap=)(?<!--gap )(?<![`.(\"])\b(?:tells?|told)\b(?! (?:apart|[^.]*\bfrom\b))(?![|`\\\\,\"])",
     "report, notify, send, say"),
]
NAME_PATTERNS = [(re.compile(rf"(?:{pattern})\Z"), instead) for pattern, instead in NAMES]
PROSE_PATTERNS = [(re.compile(pattern), instead) for pattern, instead in PROSE]
IDENTIFIER = re.compile(r"(?<![\w.$`])\.?[A-Za-z_]\w*")
# A string, a comment, or code.
SWIFT = re.compile(r'#+".*?"#+|"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.S)
PYTHON = re.compile(r'"""(.*?)"""|#[^\n]*', re.S)
PROSE_SUFFIXES = (".md", ".proto", ".yaml", ".yml", ".tutorial")
# Lists of former names, and texts that are not the project's own.
SKIPPED = ("Tests/Faults/results.md", "CHANGELOG.md", ".ci/prose.py")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def prose(text: str, first: int):
    """Yields (line, what) for each unwanted phrase of a piece of prose that begins in line `first`."""
    for offset, line in enumerate(text.split("\n")):
        line = re.sub(r"^\s*(?:///?|#+|\*|//|-- )\s?", "", line)
        for pattern, instead in PROSE_PATTERNS:
            if match := pattern.search(line):
                yield first + offset, f"'{match.group(0).strip()[:40]}': {instead}"


def names(path: Path, text: str):
    allowed = set().union(*(words for folder, words in ALLOWED_NAMES.items() if str(path).startswith(folder)))
    for match in IDENTIFIER.finditer(text):
        name = match.group(0).lstrip(".")
        for pattern, instead in NAME_PATTERNS:
            if pattern.match(name) and name not in allowed:
                yield match.start(), f"the name '{name}': {instead}"


def swift(path: Path, text: str):
    code = SWIFT.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    for position, what in names(path, code):
        yield line_of(text, position), what
    for match in SWIFT.finditer(text):
        yield from prose(match.group(0), line_of(text, match.start()))


def python(_: Path, text: str):
    for match in PYTHON.finditer(text):
        yield from prose(match.group(0), line_of(text, match.start()))


def faults(path: Path):
    text = path.read_text()
    if path.suffix == ".swift":
        return swift(path.relative_to(ROOT), text)
    if path.suffix == ".py":
        return python(path, text)
    return prose(text, 1)


def main() -> int:
    files = []
    for folder in ("Sources", "Tests", "Examples", ".ci", "Bench", "Docs", "Protocol", "Docker", "Packaging"):
        files += sorted(f for f in (ROOT / folder).rglob("*") if f.is_file() and not f.is_symlink())
    files += sorted(ROOT.glob("*.md"))
    found = checked = 0
    for file in files:
        name = str(file.relative_to(ROOT))
        if file.suffix not in (".swift", ".py", ".c", ".h", *PROSE_SUFFIXES) or name in SKIPPED:
            continue
        checked += 1
        for line, what in faults(file):
            print(f"{name}:{line}: {what}")
            found += 1
    print(f"prose: {checked} files, {found} to reword")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
