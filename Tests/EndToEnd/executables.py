"""The broker under test."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def executable() -> str:
    """$FOREBAYD, or the release build, or the debug build."""
    named = os.environ.get("FOREBAYD")
    for path in [Path(named)] if named else [ROOT / ".build" / kind / "forebayd" for kind in ("release", "debug")]:
        if path.exists():
            return str(path)
    pytest.exit(f"There is no broker to test at {path}: run `make build`, or set FOREBAYD to its path.", 2)
