"""The contract of step 8, which the live tests quote when they reject a bookie.

This is a separate module because a browser can load the steps but not the live tests.
"""

SURVIVES = "Every add that a client saw acknowledged survives SIGKILL and a restart."
READABLE = "Your files have BookKeeper's formats, so labkit's shell reads every entry from them."
