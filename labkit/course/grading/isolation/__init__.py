"""The sandbox in which a submission's code runs.

    sandbox      the process of one submission: bubblewrap, and its limits
    seccomp      the system calls that it refuses
    inside       what runs in there: the submission's answers, and calls of them
    channel      the messages on the pipe, and their limits
    sandbox_rpc  the grader's end: a learner's function as a function of the grader

Read `inside` and `sandbox_rpc` first.
"""
