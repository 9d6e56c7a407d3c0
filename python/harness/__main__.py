# SPDX-License-Identifier: MIT OR Apache-2.0
"""`python -m harness`: becomes the program, with the same arguments."""

from harness_program import main

if __name__ == "__main__":
    main()
