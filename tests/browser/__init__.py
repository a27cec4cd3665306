"""What a reader sees and does in a real browser.

The folder is a package, so that pytest closes the browser behind the last of its tests.
"""
