"""Builds all parts of a release, and checks each of them in a fresh environment.

    python -m tools.release [FOLDER]      by default build/release

FOLDER then contains the wheel, the source distribution, `offline` (the pack for classes without
internet, which contains the site) and `notes.md`. Nothing is published. The first failing check
ends the command with an error.
"""
