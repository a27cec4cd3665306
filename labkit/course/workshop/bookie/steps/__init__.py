"""The eight steps of the track, each with its description and its tests.

journal_step     step 1: the journal; this module also shows how a step is tested
records_step     step 2: reading the journal
memtable_step, entry_log_step, index_step, checkpoint_step, replay_step   steps 3 to 7
process_step     step 8: a process in a live cluster
"""
