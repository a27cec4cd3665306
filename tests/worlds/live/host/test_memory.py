import subprocess
import sys

SCRIPT = """
import gc, weakref
from labkit.worlds.live.host.memory import collect_garbage_rarely

class Node:
    pass

def cycle():
    node = Node()
    node.me = node
    return weakref.ref(node)

collect_garbage_rarely()
before = gc.get_stats()[0]["collections"]
lost = cycle()
kept = [[] for _ in range(10_000)]
assert lost() is not None, "walked too early"
kept += [[] for _ in range(20_000)]
assert lost() is None, "never found"
print(gc.get_stats()[0]["collections"] - before)
"""


def test_cycle_is_still_found_but_not_before_thousands_of_new_objects() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stderr, done.stdout) == ("", "1\n")
