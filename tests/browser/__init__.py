"""Tests of the views, JupyterLab and the static site in a real browser.

The directory is a package so that pytest closes the browser after the last of its tests.
"""
