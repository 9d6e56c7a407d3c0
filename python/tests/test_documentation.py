# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/python.md as printed, its sessions by doctest, its tests by pytest; docs/from-zero.md and docs/cookbook.md as printed."""

import doctest
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import BUILT, image

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


def commands(text: str) -> "list[tuple[str, list[str]]]":
    """The commands of a page, each with the lines that it shows as printed."""
    found: "list[tuple[str, list[str]]]" = []
    is_shown = False
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
            is_shown = True
        elif line.startswith("    ") and is_shown:
            found[-1][1].append(line[4:])
        elif line:
            is_shown = False
    return found


def assert_printed(shown: "list[str]", output: str) -> None:
    """Asserts that a command printed what is shown: `…` stands for lines, and at a line's end for the rest of it."""
    pattern = ""
    for line in shown:
        if line == "…":
            pattern += "(?:.*\n)*"
        elif line.endswith("…"):
            pattern += re.escape(line[:-1]) + ".*\n"
        else:
            pattern += re.escape(line) + "\n"
    assert re.fullmatch(pattern, output), f"shown:\n{chr(10).join(shown)}\nprinted:\n{output}"


def directory(tmp_path: Path) -> "tuple[Path, dict[str, str]]":
    """An empty directory to work in, and an environment in which `harness` is the one to be tested."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "harness").symlink_to(os.environ["HARNESS"])
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GIT_"))},
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "XDG_CACHE_HOME": f"{tmp_path}/cache",
        **{f"GIT_{who}_{what}": "me@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=work, env=environment, check=True)
    return work, environment


def exit_codes(page: str, work: Path, environment: "dict[str, str]") -> "list[tuple[str, int]]":
    """Runs the commands of a page, asserts that each prints what is shown, and gives their exit codes."""
    codes = []
    for command, shown in commands((REPOSITORY / "docs" / page).read_text(encoding="utf-8")):
        # The wheel is ci/wheel-test's.
        if command.startswith("pip install "):
            continue
        ended = subprocess.run(
            ["bash", "-c", command], cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert_printed(shown, ended.stdout)
        codes.append((command, ended.returncode))
    return codes


def test_from_zero_goes_to_a_red_build_as_its_page_says(tmp_path: Path) -> None:
    work, environment = directory(tmp_path)
    (work / "build").mkdir()
    for optimise in ("-O3", "-Os"):
        (tmp_path / f"bare{optimise}").write_bytes(image(f"cortex-m3-bare{optimise}").read_bytes())
    makefile = "OPTIMISE = -O3\n.PHONY: all\nall:\n\t@cp ../bare$(OPTIMISE) build/firmware.elf\n"
    (work / "Makefile").write_text(makefile)
    codes = exit_codes("from-zero.md", work, environment)
    assert [code for command, code in codes if command.endswith("harness test")] == [0, 0, 3, 3, 0]
    assert all(code == 0 for command, code in codes if not command.startswith(("harness test", "GITHUB_ACTIONS")))


def test_the_cookbooks_commands_print_what_it_says(tmp_path: Path) -> None:
    work, environment = directory(tmp_path)
    (work / "targets").mkdir()
    (work / "targets" / "build").symlink_to(BUILT)
    shutil.copytree(REPOSITORY / "targets" / "apps", work / "targets" / "apps")
    codes = exit_codes("cookbook.md", work, environment)
    failed = {command.split("/")[-1] for command, code in codes if code != 0}
    assert len(codes) > 20 and failed == {"cortex-m3-faulting-exit.elf", "cortex-m3-overflow.elf --exact"}


def test_the_chip_of_its_page_has_no_mistake(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "chips.md").read_text(encoding="utf-8")
    block = re.search(r"^    # XY1234: 8 MHz.*\n(?:^(?:    .*)?\n)+", text, re.MULTILINE)
    assert block is not None
    chip = tmp_path / "xy1234.toml"
    chip.write_text(re.sub("^    ", "", block[0], flags=re.MULTILINE))
    checked = subprocess.run([os.environ["HARNESS"], "chip", "check", chip], stdout=subprocess.PIPE, text=True)
    assert checked.returncode == 0 and "3 peripherals with 13 registers" in checked.stdout, checked.stdout
