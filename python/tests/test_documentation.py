# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/python.md as printed: its sessions by doctest, its tests by pytest."""

import doctest
import re
from pathlib import Path

import pytest

from conftest import image

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "python.md"


def test_the_sessions_print_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    failed, attempted = doctest.testfile(str(PAGE), module_relative=False, verbose=False)
    assert attempted > 8 and failed == 0


def test_the_tests_of_the_page_end_as_it_says(pytester: pytest.Pytester) -> None:
    text = PAGE.read_text(encoding="utf-8")
    block = re.search(r"(?:^    import pytest\n)(?:^(?:    .*)?\n)+", text, re.MULTILINE)
    assert block is not None
    code = re.sub("^    ", "", block[0], flags=re.MULTILINE)
    pytester.makepyfile(test_app=code)
    (pytester.mkdir("build") / "app.elf").write_bytes(image("cortex-m3-bare").read_bytes())
    result = pytester.runpytest_subprocess("-p", "harness.pytest_plugin", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    shown = re.search(r"^    \$ pytest\n((?:^    .*\n)+)", text, re.MULTILINE)
    assert shown is not None
    for line in shown[1].splitlines():
        line = line[4:]
        if not line.startswith(("…", "report page")):
            assert line in result.outlines, line
    result.stdout.fnmatch_lines(["report page: *test_cost0/app.html"])
