"""The exercises, one module for each lesson; `labkit.course.checking.exercise` says how one is
written.

01 entry            05 quorums              09 repair       13 streaming
02 journal          06 lac                  10 garbage      14 break_protocol
03 storage_path     07 ensemble_change      11 topics
04 last_log_mark    08 recovery             12 streams       15 build_on_it

`generated/` draws the cases of each.
"""
