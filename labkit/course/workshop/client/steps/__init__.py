"""The seven steps of the track: what each asks for, and how it is tried.

append_step   1: write sets, quorums, the order of confirmations
lac_step      2: LastAddConfirmed in the entries, and from enough bookies
read_step     3: another copy, and a proof of absence
change_step   4: ensemble change
close_step    5: the end of a ledger, and of a writer that is fenced
recover_step  6: recovery of another client's ledger
program_step  7: a program of a live cluster
"""
