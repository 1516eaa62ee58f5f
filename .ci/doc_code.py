"""Compiles and runs the code in the documentation, and compares its output with that given in the documents.

A program is
- the ```swift blocks of a document, one after another; the ```text blocks are the expected output. The blocks form the
  body of a function, except that a block that declares a type or an extension is placed outside the function. A block
  with an `@main` type is a complete program;
- a code file of a tutorial, with an `@main` type; the expected output is in comments at its end, after `// Prints:`.

All programs are compiled into one executable with modules that are already built, and run against a broker that is
already built.
"""

import os
import platform
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

BROKER = "rsocket://127.0.0.1:7690"
# The modules to link.
MODULES = (
    "Bytes", "ForebayWire", "Replay", "StreamsCore", "Streams", "StreamsTestSupport", "RSocket", "HTTP2", "CLinux",
    "EventLoop", "TLS", "Client", "Forebay",
)
MAIN = re.compile(r"^@main\n(?:enum|struct) (\w+)", re.MULTILINE)
DECLARATION = re.compile(r"(?:(?:public|private|final|indirect) )*(?:extension|struct|class|enum|actor|protocol) ")
SECONDS = 60


@dataclass
class Program:
    name: str
    path: Path
    code: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)


def target() -> str:
    return f"{platform.machine()}-unknown-linux-gnu"


def search_paths(build: Path) -> list[str]:
    """The compiler flags for finding the modules and the C modules that they use."""
    root = Path(__file__).resolve().parent.parent
    linux = build / "CLinux.build/module.modulemap"
    if not linux.exists():
        linux = root / "Sources/System/CLinux/include/module.modulemap"
    maps = [linux, *(root / f"Sources/System/{library}/module.modulemap" for library in ("CNGHTTP2", "COpenSSL"))]
    flags = [part for file in maps for part in ("-Xcc", f"-fmodule-map-file={file}")]
    return ["-I", str(build / "Modules"), "-I", str(root / "Sources/System/CLinux/include"), *flags]


def blocks(text: str):
    """Yields (language, number of the first line, lines) of each fenced block."""
    language, first, lines = None, 0, []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, first, lines = line[3:].strip(), number + 1, []
        else:
            yield language, first, lines
            language = None


def document(path: Path, name: str) -> Program | None:
    """The program made of a document's blocks."""
    program = Program(name, path)
    outside, body = [], []
    for language, first, lines in blocks(path.read_text()):
        if language == "text":
            program.output += lines
        if language != "swift" or "import PackageDescription" in lines:
            continue
        if "@main" in lines:
            program.code = whole(path, name, first, lines)
        start = next((line for line in lines if line and not line.startswith(("//", "import "))), "")
        part = outside if DECLARATION.match(start) else body
        part += located(path, first, lines)
    if outside or body:
        main = [f"enum {name} {{", "static func main() async throws {", *without_imports(body), "}", "}"]
        program.code = program.code or [*imports(outside + body), *without_imports(outside), *main]
    return program if program.code else None


def code_file(path: Path, name: str) -> Program:
    """The program in a tutorial's code file."""
    lines = path.read_text().split("\n")
    program = Program(name, path, whole(path, name, 1, lines))
    if "// Prints:" in lines:
        after = lines[lines.index("// Prints:") + 1 :]
        program.output = [line.removeprefix("//").removeprefix("     ") for line in after if line.startswith("//")]
    return program


def whole(path: Path, name: str, first: int, lines: list[str]) -> list[str]:
    """Wraps a program with an `@main` type, so that it can be combined with others."""
    code = without_imports(located(path, first, ["" if line == "@main" else line for line in lines]))
    entry = MAIN.search("\n".join(lines))[1]
    main = f"static func main() async throws {{ try await {entry}.main() }}"
    return [*imports(lines), f"enum {name} {{", *code, main, "}"]


def located(path: Path, first: int, lines: list[str]) -> list[str]:
    """Adds the source location for error messages."""
    return [f'#sourceLocation(file: "{path}", line: {first})', *lines, "#sourceLocation()"]


def imports(lines: list[str]) -> list[str]:
    return sorted({line for line in lines if line.startswith("import ")})


def without_imports(lines: list[str]) -> list[str]:
    return ["" if line.startswith("import ") else line for line in lines]


def programs(root: Path) -> list[Program]:
    found = []
    for path in [root / "README.md", *sorted(root.glob("Docs/*.md")), *sorted(root.glob("Sources/*/*/*.docc/**/*.md"))]:
        program = document(path, re.sub(r"\W", "_", f"{path.parent.stem}_{path.stem}").strip("_"))
        found += [program] if program else []
    for path in sorted(root.glob("Sources/*/*/*.docc/**/*.swift")):
        found.append(code_file(path, "Code_" + re.sub(r"\W", "_", path.stem)))
    return found


def objects_of(folder: Path) -> list[Path]:
    """A module's object files, without leftovers of removed sources."""
    listed = folder / "sources"
    names = {Path(line).name + ".o" for line in listed.read_text().split()} if listed.exists() else None
    return [file for file in sorted(folder.rglob("*.o"))
            if names is None or not file.name.endswith(".swift.o") or file.name in names]


def compile_all(found: list[Program], build: Path, work: Path, url: str) -> bool:
    work.mkdir(parents=True)
    files = []
    for program in found:
        files.append(work / f"{program.name}.swift")
        files[-1].write_text("\n".join(program.code).replace(BROKER, url) + "\n")
    cases = "\n".join(f'case "{program.name}": try await {program.name}.main()' for program in found)
    files.append(work / "main.swift")
    files[-1].write_text(f'switch CommandLine.arguments[1] {{\n{cases}\ndefault: print("no such program")\n}}\n')
    objects = [file for module in MODULES for file in objects_of(build / f"{module}.build")]
    done = subprocess.run(
        ["swiftc", "-swift-version", "6", "-warnings-as-errors", "-Onone", "-o", work / "programs",
         "-module-name", "Programs", "-target", target(), *search_paths(build), *files, *objects],
        text=True, capture_output=True, timeout=300,
    )
    for line in (done.stdout + done.stderr).split("\n"):
        if done.returncode and "error:" in line:
            print(line[:300])
    return done.returncode == 0


def start_broker(build: Path) -> tuple[subprocess.Popen, str]:
    broker = subprocess.Popen(
        [build / "forebayd", "--listen", "127.0.0.1:0", "--http", "off", "--admin", "off", "--log-format", "json"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    for line in broker.stdout:
        if match := re.search(r'127\.0\.0\.1:(\d+)', line):
            return broker, f"rsocket://127.0.0.1:{match[1]}"
    raise SystemExit("docs: the broker did not start")


def run_one(program: Program, work: Path) -> str | None:
    """Runs a program. Returns the problem, if any."""
    try:
        done = subprocess.run(
            [work / "programs", program.name], text=True, capture_output=True, timeout=SECONDS,
            env={**os.environ, "SWIFT_BACKTRACE": "enable=no"},
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {SECONDS} s"
    if done.returncode:
        return f"ended with code {done.returncode}: {done.stderr[-500:]}"
    printed = done.stdout.rstrip("\n").split("\n") if done.stdout else []
    if printed == program.output:
        return None
    return "prints\n    " + "\n    ".join(printed) + "\ninstead of\n    " + "\n    ".join(program.output)


def check(root: Path, build: Path, work: Path) -> int:
    """Compiles and runs all programs. Returns the number of failures."""
    found = programs(root)
    broker, url = start_broker(build)
    try:
        if not compile_all(found, build, work, url):
            return len(found)
        failures = 0
        for program in found:
            if wrong := run_one(program, work):
                print(f"{program.path.relative_to(root)}: {wrong}")
                failures += 1
        return failures
    finally:
        broker.terminate()
        broker.wait(10)
