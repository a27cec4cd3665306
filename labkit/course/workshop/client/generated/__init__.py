"""Generated cases for the steps of the track "build a client".

    scripted_cluster  the base class of the clusters for generated cases, with metadata and spawned
                      tasks
    manual_cluster    a cluster whose bookies respond when a test tells them to
    writing           steps 1, 2, 4 and 5: generates and plays scripts for a writer, with adds,
                      responses and accesses to the metadata
    writer_rules      checks the writer after each move
    lac_reading       step 2: generates responses for a reader of LastAddConfirmed
    reading           step 3: generates responses for reads of entries
    recovering        step 6: generates ledgers whose writers have died
    recovery_rules    checks each request of a recovery
    appending, opening  step 7: generate payloads and acknowledgements, and ledgers

Each case plays a few moves against the learner's code, and raises `Refused` with a line of the
contract as soon as the code breaks it. Read `manual_cluster` and `writing` first.
"""
