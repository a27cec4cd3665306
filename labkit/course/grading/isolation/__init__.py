"""The sandbox in which a submission's code runs.

    sandbox             starts the process of a submission with bubblewrap, and sets limits
    seccomp             filters system calls
    submission_process  runs in the sandbox: runs the notebook and calls its answers
    block_answers       replaces labkit's own answers in that process
    channel             messages sent through the pipes, and their limits
    sandbox_rpc         the judge's side: makes a learner's function callable from a trial

Read `submission_process` and `sandbox_rpc` first.
"""
