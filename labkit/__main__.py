"""Runs the `labkit` command when it is started as `python -m labkit`."""

import sys

from labkit.cli.main import main

sys.exit(main())
