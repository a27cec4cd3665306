"""The exercises, with one module per lesson. `labkit.course.checking.exercise` explains the
format.

01 entry       11 topics       14 break_protocol
05 quorums     12 streams      15 build_on_it
09 repair      13 streaming
10 garbage

In lessons 02 to 04, 06 to 08, 16 and 17, learners write the steps of the workshop
(`labkit.course.workshop`).
The modules in `generated/` generate the test cases.
"""
