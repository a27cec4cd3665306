"""All questions of the inventory, in the order of the lessons that cover them."""

from labkit.course.inventory import replication, storage, topics
from labkit.course.inventory.question import Question

QUESTIONS = tuple(
    Question(name, lesson, draw)
    for name, lesson, draw in (
        ("damage", "01", storage.who_notices),
        ("power_cut", "02", storage.power_cut),
        ("log_files", "03", storage.log_files),
        ("replay", "04", storage.replay),
        ("which_bookies", "05", replication.which_bookies),
        ("failures", "05", replication.failures),
        ("waiting", "05", replication.waiting),
        ("readable", "06", replication.readable),
        ("new_ensemble", "07", replication.new_ensemble),
        ("copies_left", "07", replication.copies_left),
        ("old_writer", "08", replication.old_writer),
        ("unconfirmed", "08", replication.unconfirmed),
        ("silent_bookie", "09", replication.silent_bookie),
        ("freed", "10", storage.freed),
        ("acknowledged", "10", topics.acknowledged),
        ("newer", "11", topics.newer),
        ("hole", "12", topics.hole),
        ("processed", "13", topics.processed),
        ("clean_tests", "14", topics.clean_tests),
        ("append_only", "15", topics.append_only),
    )
)
