"""The documents: links resolve, contents list every section, and pages name their audience."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "Docs").glob("*.md"))
PAGES = [*sorted(ROOT.glob("*.md")), *GUIDES, *sorted((ROOT / "Protocol").rglob("*.md")), ROOT / "Bench/costs.md"]
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def prose(path: Path) -> str:
    """The text without code blocks."""
    return FENCE.sub("", path.read_text())


def headings(path: Path) -> list[str]:
    return re.findall(r"^#+ +(.+)$", prose(path), re.MULTILINE)


def anchor(heading: str) -> str:
    """An anchor as Markdown renderers generate it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.replace("`", "")).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in headings(path)}


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    wrong = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, place = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or place and place not in anchors(target):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("page", [page for page in PAGES if "**Contents" in page.read_text()], ids=name)
def test_contents_name_every_section(page):
    text = prose(page)
    contents = re.search(r"\*\*Contents\W.*?\n\n", text, re.DOTALL)[0]
    listed = re.findall(r"\]\(#([^)]+)\)", contents)
    assert set(listed) >= {anchor(heading) for heading in re.findall(r"^## +(.+)$", text, re.MULTILINE)}


@pytest.mark.parametrize("page", GUIDES, ids=name)
def test_guides_say_whom_they_are_for(page):
    assert re.match(r"# .+\n\nFor ", page.read_text())


def test_the_readme_leads_to_every_guide_and_is_short():
    text = (ROOT / "README.md").read_text()
    assert [name(page) for page in GUIDES if f"]({name(page)})" not in text] == []
    assert text.count("\n") <= 180
