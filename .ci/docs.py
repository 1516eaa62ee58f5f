"""Builds the documentation of the libraries as one static site.

    python3 .ci/docs.py [--build .build/debug] [--out .build/docs]

- Every public declaration must have a comment. A declaration that implements a protocol requirement inherits its
  comment.
- Every code block of the articles, and every code file of the tutorials, must compile and print the documented output
  (doc_code.py).
- A broken link, or any other warning of docc, is an error.

The symbols of StreamsCore are shown as part of Streams, which is the module that programs import.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import doc_code

ROOT = Path(__file__).resolve().parent.parent
# The library that programs import, the modules that are shown as part of it, and the archives that it links to.
LIBRARIES = {
    "Streams": (("StreamsCore", "Streams"), ()),
    "StreamsTestSupport": (("StreamsTestSupport",), ("Streams",)),
    "Forebay": (("Forebay",), ("Streams",)),
}
SHOWN_AS = {module: library for library, (modules, _) in LIBRARIES.items() for module in modules}
# Marks declarations that the compiler generates.
SYNTHESIZED = "::SYNTHESIZED::"
OPERATOR = re.compile(r".*See `(\w+\.\w+)")


def run(*command, quiet: bool = False) -> str:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, text=True, capture_output=True, timeout=300)
    said = (done.stdout + done.stderr).strip()
    if said and (done.returncode or not quiet):
        print(said)
    if done.returncode:
        sys.exit(f"docs: {command[0]} failed with code {done.returncode}")
    return done.stdout


def extract(build: Path, module: str, blocks: bool, out: Path):
    """Writes the symbol graphs of a built module."""
    out.mkdir(parents=True)
    run(
        "swift-symbolgraph-extract", "-module-name", module, "-output-dir", out, *doc_code.search_paths(build),
        "-target", doc_code.target(), "-minimum-access-level", "public", "-skip-synthesized-members",
        "-emit-extension-block-symbols" if blocks else "-omit-extension-block-symbols", quiet=True,
    )


def renamed(value):
    """A part of a symbol graph, with modules renamed to the library that programs import."""
    if isinstance(value, dict):
        return {key: renamed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [renamed(part) for part in value]
    return SHOWN_AS.get(value, value) if isinstance(value, str) else value


def graphs(build: Path, library: str, work: Path) -> list[dict]:
    """The symbol graphs of a library: one for its own symbols, and one for each foreign module that it extends."""
    modules, _ = LIBRARIES[library]
    own, foreign = None, {}
    for module in modules:
        for blocks in (False, True):
            folder = work / f"{module}-{'blocks' if blocks else 'plain'}"
            extract(build, module, blocks, folder)
            for file in sorted(folder.glob("*.symbols.json")):
                extended = file.name.removesuffix(".symbols.json").partition("@")[2]
                # Extensions of modules that belong to the same library are ordinary members.
                inside = not extended or SHOWN_AS.get(extended) == library
                if inside == blocks:
                    continue
                graph = renamed(json.loads(file.read_text()))
                into = own if inside else foreign.get(SHOWN_AS.get(extended, extended))
                if into is not None:
                    into["symbols"] += graph["symbols"]
                    into["relationships"] += graph["relationships"]
                elif inside:
                    own = graph
                else:
                    foreign[SHOWN_AS.get(extended, extended)] = graph
    explain_by_operator(own)
    out = work / library
    out.mkdir()
    (out / f"{library}.symbols.json").write_text(json.dumps(own))
    for extended, graph in foreign.items():
        (out / f"{library}@{extended}.symbols.json").write_text(json.dumps(graph))
    return [own, *foreign.values()]


def explain_by_operator(graph: dict):
    """Adds comments to members of the types that operators return, derived from the operator.

    Such a type's own comment says "See `Publisher.OPERATOR`." Its properties are the operator's arguments. An operator
    that it redeclares, like `merge(with:)` for more publishers, behaves as it does for any publisher.
    """
    types = {
        symbol["identifier"]["precise"]: match[1]
        for symbol in graph["symbols"]
        if symbol["pathComponents"][0] == "Publishers"
        and (match := OPERATOR.match(symbol.get("docComment", {}).get("lines", [{"text": ""}])[0]["text"]))
    }
    operators = {
        symbol["pathComponents"][1].partition("(")[0]
        for symbol in graph["symbols"]
        if symbol["pathComponents"][0] == "Publisher" and len(symbol["pathComponents"]) == 2
    }
    parents = {
        relation["source"]: relation["target"] for relation in graph["relationships"] if relation["kind"] == "memberOf"
    }
    for symbol in graph["symbols"]:
        operator = types.get(parents.get(symbol["identifier"]["precise"]))
        if not operator or "docComment" in symbol:
            continue
        again = symbol["pathComponents"][-1].partition("(")[0]
        match symbol["kind"]["identifier"]:
            case "swift.property":
                text = f"The value that was passed to `{operator}`."
            case "swift.init":
                text = f"Creates the publisher that `{operator}` returns."
            case "swift.method" if again in operators:
                text = f"Like `Publisher.{again}`, fused with this operator."
            case _:
                continue
        symbol["docComment"] = {"lines": [{"text": text}]}


def undocumented(graph: dict):
    """Yields FILE:LINE: MESSAGE for each public declaration without a comment."""
    for symbol in graph["symbols"]:
        if "docComment" in symbol or SYNTHESIZED in symbol["identifier"]["precise"] or "location" not in symbol:
            continue
        file = Path(symbol["location"]["uri"].removeprefix("file://"))
        if not file.is_relative_to(ROOT) or symbol["kind"]["identifier"].startswith("swift.extension"):
            continue
        line = symbol["location"]["position"]["line"] + 1
        yield f"{file.relative_to(ROOT)}:{line}: {'.'.join(symbol['pathComponents'])} has no comment"


def convert(library: str, work: Path) -> Path:
    """Creates a library's archive from its catalog and its symbols."""
    archive = work / f"{library}.doccarchive"
    dependencies = [part for name in LIBRARIES[library][1] for part in ("--dependency", work / f"{name}.doccarchive")]
    run(
        "docc", "convert", next((ROOT / "Sources").glob(f"*/{library}/{library}.docc")), "--output-path", archive,
        "--additional-symbol-graph-dir", work / library, "--fallback-display-name", library,
        "--fallback-bundle-identifier", f"forebay.{library}", "--fallback-default-module-kind", "Library",
        "--enable-experimental-external-link-support", *dependencies,
        "--enable-inherited-docs", "--enable-experimental-overloaded-symbol-presentation",
        "--transform-for-static-hosting", "--warnings-as-errors",
    )
    return archive


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=ROOT / ".build/debug", help="the build folder of the libraries")
    parser.add_argument("--out", type=Path, default=ROOT / ".build/docs", help="the output folder")
    arguments = parser.parse_args()
    build, site = arguments.build.resolve(), arguments.out.resolve()
    work = site.with_name(site.name + "-work")
    for folder in (site, work):
        shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True)
    missing = sorted(
        {line for name in LIBRARIES for graph in graphs(build, name, work) for line in undocumented(graph)}
    )
    print(*missing, sep="\n", end="\n" if missing else "")
    failures = doc_code.check(ROOT, build, work / "code")
    archives = [convert(name, work) for name in LIBRARIES]
    run(
        "docc", "merge", *archives, "--output-path", site, "--synthesized-landing-page-name", "Forebay",
        "--synthesized-landing-page-kind", "Package",
    )
    shutil.rmtree(work)
    print(f"docs: {len(missing)} declarations without a comment, {failures} failing programs")
    sys.exit(1 if missing or failures else 0)


if __name__ == "__main__":
    main()
