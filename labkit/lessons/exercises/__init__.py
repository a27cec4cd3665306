"""The exercises, one module a lesson; `labkit.lessons.exercise` says how one is written."""
