"""The exercises, with one module per lesson. `labkit.course.checking.exercise` explains the
format.

01 entry                09 repair       13 streaming
05 quorums              10 garbage      14 break_protocol
06 lac                  11 topics       15 build_on_it
07 ensemble_change      12 streams
08 recovery

In lessons 02 to 04, 16 and 17, learners write the steps of the workshop (`labkit.course.workshop`).
The modules in `generated/` generate the test cases.
"""
