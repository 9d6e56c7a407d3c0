# SPDX-License-Identifier: MIT OR Apache-2.0
"""pytest's door to harness: the fixture ``firmware`` and the marker that names what it runs.

    @pytest.mark.firmware("build/app.elf", chip="stm32f407")
    def test_boot(firmware):
        assert firmware.calls("main") == 1

Each firmware with each set of options runs once in a session, also under pytest-xdist. If a test fails, its report names a
page for the browser with all of the run. ``thresholds`` hold a run against a baseline that ``--harness-save-baseline`` writes.
"""

from pathlib import Path
from typing import Any, Generator, Optional

import pytest

from .errors import HarnessError, ThresholdCrossed
from .profile import Profile
from .shared_runs import Request, SharedRuns
from .suite import Baseline

_RUNS = pytest.StashKey[SharedRuns]()
_PROFILE = pytest.StashKey[Profile]()
_FOLDER = pytest.StashKey[Path]()

#: How to mark a test, for those that do not.
_USAGE = 'name the firmware: @pytest.mark.firmware("build/app.elf"), without output'


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of baselines."""
    group = parser.getgroup("harness", "firmware by harness")
    group.addoption(
        "--harness-baseline",
        default="main",
        metavar="NAME",
        help="baseline for tests with thresholds [default: main]",
    )
    group.addoption(
        "--harness-save-baseline",
        action="store_true",
        help="make the numbers of the runs with thresholds the baseline",
    )
    parser.addini("harness_baselines", "folder of the baselines, below pytest's rootdir", default="baselines")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker, for --strict-markers."""
    config.addinivalue_line(
        "markers",
        "firmware(elf, *, thresholds=None, name=None, check=True, **options): firmware that the fixture `firmware` runs, a "
        "path below pytest's rootdir, with the options of harness.run",
    )


def _runs(request: pytest.FixtureRequest) -> SharedRuns:
    config = request.config
    if _RUNS not in config.stash:
        factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
        base = factory.getbasetemp()
        # xdist gives each worker a folder within the session's.
        session = base.parent if hasattr(config, "workerinput") else base
        baseline = Baseline(
            config.rootpath / config.getini("harness_baselines"),
            config.getoption("--harness-baseline"),
            config.getoption("--harness-save-baseline"),
        )
        config.stash[_RUNS] = SharedRuns(session / "harness-runs", baseline)
    return config.stash[_RUNS]


@pytest.fixture
def firmware(request: pytest.FixtureRequest, tmp_path: Path) -> Profile:
    """Profile of the run that the test's marker describes: ``@pytest.mark.firmware("build/app.elf", chip="stm32f407")``.

    A run that fails is an error of the test, unless the marker has ``check=False``.
    """
    node = request.node
    marker = node.get_closest_marker("firmware")
    if marker is None or len(marker.args) != 1 or "output" in marker.kwargs:
        pytest.fail(_USAGE, pytrace=False)
    node.stash[_FOLDER] = tmp_path
    options = dict(marker.kwargs)
    check = options.pop("check", True)
    thresholds = options.pop("thresholds", None)
    elf = request.config.rootpath / marker.args[0]
    wanted = Request(elf, options, thresholds, options.pop("name", None) or elf.stem)
    profile, failure = None, ""
    try:
        profile = _runs(request).profile(wanted, check=check)
    except HarnessError as error:
        profile = error.profile
        failure = f"{marker.args[0]}: {error.meaning} (exit code {error.exit_code})\n{error}"
        # harness's own words are about `harness test`.
        if isinstance(error, ThresholdCrossed) or "--save-baseline" in error.message:
            failure += "\nto make these numbers the baseline: pytest --harness-save-baseline"
    if profile is not None:
        node.stash[_PROFILE] = profile
    if profile is None or failure:
        # Not within the handling of the exception, which would be shown, too.
        pytest.fail(failure, pytrace=False)
    return profile


def _page(item: pytest.Item) -> Optional[str]:
    """Writes the report page of a test's run and says where it is; None: it had no run."""
    profile = item.stash.get(_PROFILE, None)
    if profile is None:
        return None
    try:
        page = profile.report(item.stash[_FOLDER] / f"{Path(profile.facts.image).stem}.html")
    except (HarnessError, OSError) as error:
        return f"no report page could be written: {error}"
    return f"report page: {page}\nend: {profile.end.text}"


def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Adds the page of the run to the report of a test that failed."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed and report.when in ("setup", "call"):
        page = _page(item)
        if page is not None:
            report.sections.append(("harness", page))


# Not as a decorator: that has no type in every release of pytest.
pytest.hookimpl(hookwrapper=True)(pytest_runtest_makereport)
