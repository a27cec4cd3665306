"""The seven steps of the track: what each asks for, and how it is tried.

journal_step     1: the journal; what is tried beside the worlds
memtable_step, entry_log_step, index_step, checkpoint_step, replay_step   2 to 6
process_step     7: what a process of a live cluster promises
"""
