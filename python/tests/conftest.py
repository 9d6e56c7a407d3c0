# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the tests share: the images of `ci/setup --tests`, run by the harness that ci/python names."""

from pathlib import Path

import pytest

from harness import Profile, run

pytest_plugins = ["pytester"]

#: Images of the repository.
BUILT = Path(__file__).resolve().parents[2] / "targets" / "build"


def image(name: str) -> Path:
    """Path of an image; a missing one fails the test."""
    path = BUILT / f"{name}.elf"
    assert path.is_file(), f"{path} is missing: run ci/setup --tests"
    return path


@pytest.fixture(scope="session")
def freertos() -> Profile:
    """Two million instructions of FreeRTOS's tasks, with every event."""
    return run(image("cortex-m3-freertos"), for_="2M", timeline=True)


@pytest.fixture(scope="session")
def zones() -> Profile:
    """Firmware that names its zones, with the exact call tree."""
    return run(image("cortex-m3-zones"), exact=True)
