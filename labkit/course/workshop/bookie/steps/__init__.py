"""The seven steps of the track: the description and the tests of each.

journal_step     step 1: the journal; also shows how a step is tested
memtable_step, entry_log_step, index_step, checkpoint_step, replay_step   steps 2 to 6
process_step     step 7: a process of a live cluster
"""
