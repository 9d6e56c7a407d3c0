# SPDX-License-Identifier: MIT OR Apache-2.0
"""The pytest plugin, in a pytest of its own: the fixture, failures with a page, and one run for all workers of xdist."""

import re
from pathlib import Path
from typing import List

import pytest

import harness
from conftest import image

PLUGIN = ["-p", "harness.pytest_plugin", "-p", "no:cacheprovider"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with firmware in build/."""
    build = pytester.mkdir("build")
    (build / "app.elf").write_bytes(image("riscv64-exit3").read_bytes())
    (build / "work.elf").write_bytes(image("cortex-m3-bare").read_bytes())
    return pytester


def _run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest_subprocess(*PLUGIN, "--strict-markers", f"--basetemp={project.path / 'temp'}", *arguments)


def _runs(project: pytest.Pytester) -> List[Path]:
    return sorted((project.path / "temp").glob("harness-runs/*/*.profile"))


def test_a_marker_names_the_firmware_and_its_options(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.firmware("build/work.elf", for_="300k", machine="lm3s6965evb")
        def test_boot(firmware):
            assert firmware.calls("main") == 1
            assert firmware.total_insns == 300_000
            assert firmware.facts.machine == "lm3s6965evb"

        @pytest.mark.firmware("build/app.elf", check=False)
        def test_end(firmware):
            assert firmware.end.status == 3
        """
    )
    _run(project).assert_outcomes(passed=2)


def test_a_failing_test_names_a_page_of_its_run(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.firmware("build/work.elf", for_="300k")
        def test_cost(firmware):
            assert firmware.instructions("main") <= 1
        """
    )
    result = _run(project)
    result.assert_outcomes(failed=1)
    page = re.search(r"^report page: (.*)$", result.stdout.str(), re.MULTILINE)
    assert page is not None, result.stdout.str()
    assert "crc32" in Path(page[1]).read_text()


def test_firmware_that_fails_is_an_error_with_its_end_and_a_page(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.firmware("build/app.elf")
        def test_end(firmware):
            pass
        """
    )
    result = _run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the firmware failed (exit code 1)*", "*exited with status 3*", "report page: *app.html"])


def test_bad_input_says_what_is_wrong(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.firmware("build/absent.elf")
        def test_absent(firmware):
            pass

        def test_unmarked(firmware):
            pass
        """
    )
    result = _run(project)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*usage or bad input (exit code 2)*", "*absent.elf*"])
    result.stdout.fnmatch_lines(["*name the firmware:*"])


TESTS = """
    import pytest

    @pytest.mark.parametrize("turn", range(6))
    @pytest.mark.firmware("build/work.elf", for_="300k")
    def test_same(firmware, turn):
        assert firmware.total_insns == 300_000

    @pytest.mark.parametrize("turn", range(2))
    @pytest.mark.firmware("build/work.elf", for_="200k")
    def test_other(firmware, turn):
        assert firmware.total_insns == 200_000
    """


@pytest.mark.parametrize("workers", [[], ["-p", "xdist", "-n", "3"]], ids=["one", "three"])
def test_each_run_is_made_once_in_a_session(project: pytest.Pytester, workers: List[str]) -> None:
    project.makepyfile(TESTS)
    # Counts the runs of the program.
    log = project.path / "log"
    counter = project.path / "harness-that-counts"
    counter.write_text(f'#!/bin/sh\necho "$1" >>"{log}"\nexec "{harness.executable()}" "$@"\n')
    counter.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS", str(counter))
        _run(project, *workers).assert_outcomes(passed=8)
    assert log.read_text().split().count("profile") == 2
    assert len(_runs(project)) == 2


def test_a_rebuilt_file_runs_anew(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from pathlib import Path
        import pytest

        @pytest.mark.firmware("build/app.elf", check=False)
        def test_before(firmware):
            assert firmware.end.status == 3
            build = Path("build")
            (build / "app.elf").write_bytes((build / "work.elf").read_bytes())

        @pytest.mark.firmware("build/app.elf", check=False)
        def test_after(firmware):
            assert firmware.end.status == 0
        """
    )
    _run(project).assert_outcomes(passed=2)


def test_thresholds_hold_a_run_against_a_saved_baseline(project: pytest.Pytester) -> None:
    tests = """
        import pytest
        from harness import At

        @pytest.mark.firmware(
            "build/work.elf", for_="{length}", input=[At(1000, 'a:"b"\\\\n')], name="cost", thresholds={{"total": "0.1%"}}
        )
        def test_cost(firmware):
            assert firmware.calls("main") == 1
        """
    project.makepyfile(test_cost=tests.format(length="300k"))
    result = _run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*there is no baseline*", "*: pytest --harness-save-baseline"])

    _run(project, "--harness-save-baseline").assert_outcomes(passed=1)
    baseline = project.path / "baselines" / "main" / "cost.baseline"
    saved = baseline.read_text()
    _run(project).assert_outcomes(passed=1)

    project.makepyfile(test_cost=tests.format(length="301k"))
    result = _run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*a regression threshold was crossed (exit code 3)*", "*total*0.1 %*", "*--harness-save-baseline*", "report page:*"]
    )
    assert baseline.read_text() == saved
    _run(project, "--harness-save-baseline").assert_outcomes(passed=1)
    assert baseline.read_text() != saved
    _run(project, "-p", "xdist", "-n", "2").assert_outcomes(passed=1)


def test_an_option_that_suites_lack_is_named(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.firmware("build/work.elf", options=["--shift=4"], thresholds={})
        def test_cost(firmware):
            pass
        """
    )
    result = _run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*takes no options*"])
