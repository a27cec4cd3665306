"""Builds all parts of a release, and checks each part in a fresh environment.

    python -m tools.release [FOLDER]      by default build/release

FOLDER then contains the wheel, the source distribution, `offline` (the pack for classes without
internet access, which includes the site) and `notes.md`. Nothing is published. If a check fails,
the command ends with an error.
"""
