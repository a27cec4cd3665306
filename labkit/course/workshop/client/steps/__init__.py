"""The seven steps of the track, each with its description and its tests.

append_step   step 1: write sets, quorums, the order of confirmations
lac_step      step 2: LastAddConfirmed in entries, and reading it from enough bookies
read_step     step 3: reading from another copy, and proof of absence
change_step   step 4: ensemble change
close_step    step 5: closing a ledger, and a writer that is fenced
recover_step  step 6: recovery of another client's ledger
program_step  step 7: a program on a live cluster
"""
