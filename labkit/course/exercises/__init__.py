"""The exercises, with one module per lesson. `labkit.course.checking.exercise` explains the
format.

01 entry            05 quorums              09 repair       13 streaming
02 journal          06 lac                  10 garbage      14 break_protocol
03 storage_path     07 ensemble_change      11 topics
04 last_log_mark    08 recovery             12 streams       15 build_on_it

The modules in `generated/` generate the test cases.
"""
