"""Protocol/conformance.md, guarantees.md and threats.md name the test that shows each rule. This checks that these
tests exist, that every test named after a rule is listed, and that every rule is, too.

Tests are named in the last column of each table: `test_x` for a function in Tests/EndToEnd, or `file/test_x` if several
files have one of that name; `Suite.test`, or `Folder/Suite.test`, for one in Suite.swift.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["conformance.md", "guarantees.md", "threats.md"]


def wire_tests() -> dict[str, list[str]]:
    """The test functions in Tests/EndToEnd: by name, the files that define one."""
    found = {}
    for file in sorted((ROOT / "Tests/EndToEnd").rglob("test_*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found.setdefault(node.name, []).append(file.stem)
    return found


LAYERS = {"System", "Wire", "Engine", "Broker", "Client", "Streams", "Tools", "Tests"}


def swift_tests() -> dict[str, list[str]]:
    """The Swift tests, as Suite.test by file name: the folders that have one."""
    found = {}
    for file in sorted((ROOT / "Tests").rglob("*.swift")):
        folder = next(path.name for path in file.parents if path.parent.name in LAYERS)
        for part in file.read_text().split("@Test")[1:]:
            if name := re.search(r"\bfunc\s+(\w+)", part):
                found.setdefault(f"{file.stem}.{name[1]}", []).append(folder)
    return found


WIRE, SWIFT = wire_tests(), swift_tests()


def missing(cited: str) -> str | None:
    """What is wrong with a test's name, if anything."""
    place, _, name = cited.rpartition("/")
    have = (WIRE if name.startswith("test_") else SWIFT).get(name, [])
    if place:
        return None if have.count(place) else f"{place} has no {name}"
    return None if len(set(have)) == 1 else f"{cited} is in {sorted(set(have)) or 'no file'}"


class Row:
    def __init__(self, cells: list[str]):
        self.cells, self.rule = cells, cells[0]
        self.tests = re.findall(r"`([^`]+)`", cells[-1])


def tables(page: str) -> dict[str, list[Row]]:
    """The rows of each section's tables that end with a column "test"."""
    found, section, open_ = {}, "", False
    for line in (ROOT / "Protocol" / page).read_text().splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("|"):
            open_ = False
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells[-1] == "test":
            open_ = True
        elif open_ and not set(cells[0]) <= set("-: "):
            found.setdefault(section, []).append(Row(cells))
    return found


def quantity(text: str) -> int:
    """16K, 5s, 1m or a plain number; times in nanoseconds."""
    number, unit = re.fullmatch(r"(\d+)([KMsm]?)", text).groups()
    return int(number) * {"": 1, "K": 1 << 10, "M": 1 << 20, "s": 10**9, "m": 60 * 10**9}[unit]


def constant(name: str) -> int:
    """A limit that is not a setting, Type.name, from the sources."""
    kind, field = name.split(".")
    (file,) = (ROOT / "Sources").rglob(f"{kind}.swift")
    found = re.findall(rf"(?:let|var) {field}(?:: \w+)? = ([^\n]+)", file.read_text())
    assert len(found) == 1, f"{name}: {found}"
    return eval(found[0].replace("second", "10**9"), {})


def test_limits_are_those_of_the_settings_and_the_sources():
    text = (ROOT / "Docs/configuration.md").read_text()
    settings = {key: value.strip("`") for key, value in re.findall(r"^\| `([a-z-]+)` \| (`?[^|]+?`?) \|", text, re.M)}
    rows = [row for rows in tables("threats.md").values() for row in rows if len(row.cells) == 5]
    assert len(rows) > 60
    for row in rows:
        names, values = re.findall(r"`([^`]+)`", row.cells[2]), re.findall(r"`([^`]+)`|none", row.cells[3])
        assert len(names) == len(values), row.cells
        for name, value in zip(names, values):
            if "." in name:
                assert constant(name) == quantity(value), f"{name} is not {value}"
            else:
                assert settings[name] == (value or "none"), f"{name} is {settings[name]}, not {value}"


def cited(rows: list[Row]) -> set[str]:
    return {test.rpartition("/")[2] for row in rows for test in row.tests}


def of_file(file: str) -> set[str]:
    return {name for name, files in WIRE.items() if file in files}


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_a_page_names_are_there(page):
    rows = [row for rows in tables(page).values() for row in rows]
    assert len(rows) > 5
    faults = [f"{row.rule}: {fault}" for row in rows for test in row.tests if (fault := missing(test))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("page", PAGES)
def test_a_row_without_a_test_says_why(page):
    for row in [row for rows in tables(page).values() for row in rows]:
        assert row.tests or (row.cells[-1] == "–" and "Not observable:" in row.cells[-2]), row.cells
        assert all(row.cells), f"an empty cell: {row.cells}"


def numbers(name: str) -> list[str]:
    """The rules after which a test is named: test_1_6_and_2_4_terminal is 1.6 and 2.4."""
    digits = re.match(r"test_((?:\d+_)+(?:and_(?:\d+_)+)*)", name)
    return [one.strip("_").replace("_", ".") for one in digits[1].split("and_")] if digits else []


def test_every_rule_of_reactive_streams_has_a_row():
    rows = tables("conformance.md")["Reactive Streams"]
    last = {1: 11, 2: 13, 3: 17, 4: 2}
    assert [row.rule for row in rows] == [f"{part}.{n}" for part in last for n in range(1, last[part] + 1)]


def test_tests_of_reactive_streams_stand_at_their_rules():
    rows = {row.rule: row for row in tables("conformance.md")["Reactive Streams"]}
    for name in of_file("test_rules"):
        assert numbers(name), f"no rule names {name}"
        for rule in numbers(name):
            assert name in rows[rule].tests, f"{rule} does not name {name}"
    for row in rows.values():
        strangers = [test for test in row.tests if numbers(test) and row.rule not in numbers(test)]
        assert not strangers, f"{row.rule} names {strangers}"


STREAM = "Empty Single Multivalue Infinite Error ValueThenError FlowControl FlowControl2 Cancel Interleave " \
    "MultipleSuccession MultipleCancel AfterCancel"
RESPONSE = "Pass Error Cancel Interleave MultipleSuccession RequestAfterCancel MultipleCancel"
CHANNEL = "SingleVsSingle SingleVsNoResponse SingleVsError MultiVsSingle MultiVsMulti MultiVsNoResponse MultiVsError " \
    "NoResponseVsSingle NoResponseVsMulti NoResponseVsError NoResponseVsNoResponse ErrorVsSingle ErrorVsMulti " \
    "ErrorVsError InterleaveRequestResponse Cancel Cancel2 Cancel3 MultipleSuccession AfterCancel AfterCancel2"
KIT = [
    "fireAndForget", "fireAndForget2", *("requestResponse" + name for name in RESPONSE.split()),
    *("requestStream" + name for name in STREAM.split()),
    "requestResponseConcurrent", "requestResponseSequential", "requestStreamConcurrent", "requestStreamSequential",
    *(f"streamTest{n}" for n in (1, 2, 3)), *(f"requestResponseTest{n}" for n in (1, 2, 3)),
    *(f"streamResumptionTest{n}" for n in (1, 2, 3, 4)), *("requestChannel" + name for name in CHANNEL.split()),
]


def test_every_case_of_the_kit_has_a_row_and_its_tests_stand_there():
    rows = tables("conformance.md")["The RSocket test kit"]
    assert sorted(row.rule for row in rows) == sorted(KIT)
    own = of_file("test_kit") | of_file("test_kit_channels") | of_file("test_kit_resumption")
    assert own - cited(rows) <= {"test_a_client_that_leaves_harms_no_other"}
    for row in rows:
        snake = re.sub(r"(?<=[a-z])(?=[A-Z0-9])", "_", row.rule).lower()
        words = snake.replace("vs_multi", "vs_single_and_multi") if "error_vs_multi" in snake else snake
        assert any(test.startswith(f"test_{words}") for test in cited([row])), f"{row.rule}: {row.tests}"


# The sections of the protocol as the page names them, before a colon if one has several rules; and the prefixes of
# their tests' names.
SECTIONS = {
    "Framing": "framing", "Header": "header", "Ignore flag": "ignore_flag", "Metadata header": "metadata_header",
    "Stream ids": "stream_ids", "SETUP": "setup", "ERROR": "error", "LEASE": "lease", "KEEPALIVE": "keepalive",
    "REQUEST_RESPONSE": "request_response", "REQUEST_FNF": "request_fnf", "REQUEST_STREAM": "request_stream",
    "REQUEST_CHANNEL": "request_channel", "REQUEST_N": "request_n", "CANCEL": "cancel", "PAYLOAD": "payload",
    "METADATA_PUSH": "metadata_push", "EXT": "ext", "Resuming": "resume", "Establishment": "establishment",
    "Fragmentation": "fragmentation", "Flow control": "flow_control", "The unexpected": "unexpected",
}
SECTION_FILES = ["test_connection", "test_streams", "test_keepalive", "test_requests", "test_fragments"]


def test_every_section_of_the_protocol_has_rows_and_its_tests_stand_there():
    rows = tables("conformance.md")["The RSocket protocol"]
    assert {row.rule.partition(":")[0] for row in rows} == set(SECTIONS)
    tests = {name for file in SECTION_FILES for name in of_file(file)}
    for section, words in SECTIONS.items():
        named = {name for name in tests if re.match(rf"test_{words}s?_", name)}
        here = cited([row for row in rows if row.rule.partition(":")[0] == section])
        everywhere = cited(rows)
        assert named <= everywhere, f"{section}: {sorted(named - everywhere)} do not exist"
        assert not named or named & here, f"{section} names none of its tests"


def test_every_section_of_http2_that_a_test_is_named_by_has_a_row():
    rows = {row.rule: row for row in tables("conformance.md")["HTTP/2"]}
    swift = {name for name in SWIFT if name.startswith("RFC9113Tests.section")}
    for name in of_file("test_http2_frames"):
        assert numbers(name), f"no section names {name}"
        for rule in numbers(name):
            assert name in rows[rule].tests, f"{rule} does not name {name}"
    assert swift <= cited(list(rows.values())), sorted(swift - cited(list(rows.values())))
    cases = re.findall(r'^    "([\d.]+) ', (ROOT / "Tests/EndToEnd/test_http2_frames.py").read_text(), re.MULTILINE)
    assert len(cases) > 30 and set(cases) <= rows.keys(), sorted(set(cases) - rows.keys())


def test_every_test_of_patterns_has_a_row():
    here = cited(tables("conformance.md")["Patterns"])
    for file in ("test_pattern_rules", "test_patterns", "test_shared_patterns"):
        assert of_file(file) <= here, sorted(of_file(file) - here)


def promised(page: str, heading: str) -> list[str]:
    """The numbers of the guarantees that a section lists."""
    section = (ROOT / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^(\d)\. ", section, re.MULTILINE)


def test_every_guarantee_is_stated_and_has_its_tests():
    (rows,) = tables("guarantees.md").values()
    numbers = list("123456789")
    assert promised("README.md", "Guarantees") == promised("Protocol/guarantees.md", "The guarantees") == numbers
    assert [*dict.fromkeys(row.rule for row in rows)] == numbers
    for number in numbers:
        assert any(test.startswith("test_") for test in cited([row for row in rows if row.rule == number])), number
