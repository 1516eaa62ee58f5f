"""How the admin page formats figures."""

import contextlib
import json

import pytest

from page import Page

pytestmark = pytest.mark.rsocket


def test_figures_that_round_up_to_a_thousand_get_the_next_unit(begin):
    broker = begin("--admin", "127.0.0.1:0")
    with contextlib.closing(Page("http://%s:%d/" % broker.admin)) as page:

        def shown(function: str, *numbers: float) -> list[str]:
            figures = json.dumps(numbers)
            return page.value(f"import('/kit.js').then((kit) => {figures}.map((n) => kit.{function}(n)))")

        assert shown("count", 0, 9999, 9999.6, 99_960, 999_499, 999_999, 9_960_000, 999_999_999, 42e9) \
            == ["0", "9,999", "10.0 k", "100 k", "999 k", "1.0 M", "10 M", "1.0 G", "42 G"]
        assert shown("rate", 0, 9.94, 9.96, 12.3) == ["0", "9.9", "10", "12"]
        assert shown("bytes", 1023, 1024, 10_200, 1 << 20, (1 << 20) - 1, (1 << 30) - 1) \
            == ["1023 B", "1.0 KiB", "10 KiB", "1.0 MiB", "1.0 MiB", "1.0 GiB"]
