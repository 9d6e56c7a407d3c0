# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests of `west harness`, with stand-ins for west's classes where west is not installed: `python3 west/test_harness.py`.

HARNESS names the program, IMAGES the folder of firmware images; without them only what needs neither is tested.
"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import types
import unittest
from pathlib import Path

try:
    from west.commands import CommandError
except ImportError:
    commands = types.ModuleType("west.commands")

    class CommandError(RuntimeError):
        def __init__(self, returncode=1):
            super().__init__()
            self.returncode = returncode

    class WestCommand:
        def __init__(self, name, help, description, accepts_unknown_args=False):
            self.name, self.help, self.description = name, help, description

    commands.CommandError, commands.WestCommand = CommandError, WestCommand
    sys.modules["west"], sys.modules["west.commands"] = types.ModuleType("west"), commands

sys.path.insert(0, str(Path(__file__).parent))
import harness  # noqa: E402

IMAGES = os.environ.get("IMAGES")


def run(*words):
    """The command's exit code and what it said."""
    import argparse

    command = harness.Harness()
    subparsers = argparse.ArgumentParser().add_subparsers()
    args, unknown = command.do_add_parser(subparsers).parse_known_args(words)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            command.do_run(args, unknown)
            code = 0
        except CommandError as error:
            code = error.returncode
    return code, out.getvalue() + err.getvalue()


class Build(unittest.TestCase):
    """A build directory as west makes it."""

    def setUp(self):
        self.root = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        program = os.environ.get("HARNESS", "harness")
        os.environ["HARNESS"] = program

    def build(self, name, image=None, cache=None, info=None):
        build = self.root / name
        (build / "zephyr").mkdir(parents=True)
        if image:
            shutil.copy(Path(IMAGES) / image, build / "zephyr" / "zephyr.elf")
        if cache:
            (build / "CMakeCache.txt").write_text(cache)
        if info:
            (build / "build_info.yml").write_text(info)
        return build

    def test_the_board_is_what_the_build_directory_says(self):
        old = self.build("old", cache="//Selected board\nBOARD:STRING=qemu_cortex_m3\nCACHED_BOARD:STRING=mps2_an385\n")
        self.assertEqual(harness.board_of(old), "mps2_an385")
        new = self.build("new", cache="CACHED_BOARD:STRING=mps2\nBOARD_QUALIFIERS:STRING=/an385\n")
        self.assertEqual(harness.board_of(new), "mps2/an385")
        info = "cmake:\n  application:\n    source-dir: /a\n  board:\n    name: nrf52840dk\n    qualifiers: nrf52840\n"
        self.assertEqual(harness.board_of(self.build("info", info=info + "    revision:\nversion: 1\n")), "nrf52840dk/nrf52840")
        self.assertIsNone(harness.board_of(self.build("none")))

    def test_machine_and_chip_follow_from_the_board(self):
        for board, options in [
            ("mps2/an385", ["--machine", "mps2-an385"]),
            ("mps2/an521/cpu0", ["--machine", "mps2-an521"]),
            ("qemu_cortex_m3/ti_lm3s6965", ["--machine", "lm3s6965evb"]),
            ("nrf52840dk@1.0.0/nrf52840", ["--chip", "nrf52840"]),
            ("mps2/an999", None),
            ("qemu_riscv64/qemu_virt_riscv64", None),
        ]:
            self.assertEqual(harness.options_for(board), options, board)

    def test_a_run_of_ztest_ends_with_its_tests(self):
        elf = self.build("build") / "zephyr" / "zephyr.elf"
        elf.write_bytes(b"\x7fELF\0main\0")
        self.assertEqual(harness.window_of(elf), {"for": "50M"})
        elf.write_bytes(b"\x7fELF\0main\0ztest_verify_all_test_suites_ran\0")
        self.assertEqual(harness.window_of(elf), {"for": "50M", "until": "ztest_verify_all_test_suites_ran"})

    def test_with_sysbuild_the_default_domain_is_the_application(self):
        build = self.build("build")
        (build / "domains.yaml").write_text("default: app\nbuild_dir: /x\ndomains:\n  - name: app\n")
        self.assertEqual(harness.application_of(build), build / "app")

    def test_what_is_missing_is_said_with_what_to_do(self):
        code, said = run("-d", str(self.root / "nowhere"))
        self.assertEqual(code, 2)
        self.assertIn("west build -b BOARD", said)
        code, said = run("--twister", str(self.root))
        self.assertEqual(code, 2)
        self.assertIn("west twister --build-only", said)
        del os.environ["HARNESS"]
        path, os.environ["PATH"] = os.environ["PATH"], ""
        code, said = run("-d", str(self.root))
        os.environ["PATH"] = path
        self.assertEqual(code, 2)
        self.assertIn("not on the PATH", said)

    @unittest.skipUnless(IMAGES, "no images")
    def test_an_image_runs_and_its_page_is_named(self):
        build = self.build("build", "cortex-m3-zephyr.elf", cache="CACHED_BOARD:STRING=mps2_an385\n")
        code, said = run("-d", str(build), "--for", "20k")
        self.assertEqual(code, 0, said)
        self.assertTrue((build / "harness.html").is_file() and (build / "harness.profile").is_dir())

    @unittest.skipUnless(IMAGES, "no images")
    def test_the_exit_code_is_harnesss(self):
        build = self.build("build", "cortex-m3-zephyr.elf", cache="CACHED_BOARD:STRING=mps2_an385\n")
        code, _ = run("-d", str(build), "--max-insns", "1k")
        self.assertEqual(code, 4)
        code, _ = run("-d", str(build), "--machine", "no-such-machine")
        self.assertEqual(code, 2)

    @unittest.skipUnless(IMAGES, "no images")
    def test_twisters_images_have_a_row_for_each_test_case_and_are_compared(self):
        cache = "CACHED_BOARD:STRING=mps2\nBOARD_QUALIFIERS:STRING=/an385\n"
        self.build("twister-out/mps2_an385/kernel.queue", "cortex-m3-ztest.elf", cache=cache)
        self.build("twister-out/qemu_riscv64/kernel.queue", "riscv64-ztest.elf")
        out = self.root / "twister-out"
        code, said = run("--twister", str(out), "--save-baseline", "before")
        self.assertEqual(code, 0, said)
        rows = json.loads((out / "harness-cases.json").read_text())
        self.assertEqual(len(rows), 12)
        put = next(row for row in rows if row["case"] == "queue.test_put" and row["board"] == "mps2/an385")
        self.assertEqual((put["image"], put["times"], put["left"]), ("mps2_an385.kernel.queue", 2, 0))
        self.assertGreaterEqual(put["instructions"], put["own_instructions"])
        # Another revision: the other structures, whose cases have other numbers.
        shutil.copy(Path(IMAGES) / "cortex-m3-zephyr.elf", out / "mps2_an385/kernel.queue/zephyr/zephyr.elf")
        code, said = run("--twister", str(out), "--baseline", "before")
        summary = (out / "harness-report" / "summary.md").read_text()
        self.assertIn("| Zone or test case |", summary)
        self.assertIn("`queue.test_put`", summary)


if __name__ == "__main__":
    unittest.main()
