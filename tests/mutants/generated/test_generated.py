"""Generated mutants: which changes are made, how they are planted, and what a sample reports."""

import ast
from collections import defaultdict
from types import CodeType, FunctionType

import pytest

from tests.mutants.generated.equivalent import EQUIVALENT
from tests.mutants.generated.operators import Mutant, mutants_of
from tests.mutants.generated.reached import ROOT
from tests.mutants.generated.trials import exchanged

MODULE = '''"""A module."""
LIMIT = 3

class Counter:
    """Counts."""

    def take(self, count: int) -> int:
        """Take some."""
        if count < LIMIT and self.is_open:
            self.taken += count
            return self.taken * 2
        raise ValueError("too many")

async def both(one, other):
    await one()
    await other()
    return True
'''
EXPECTED = {
    "(module): constant: 3 -> 4",
    "Counter.take: condition: if count < LIMIT and self.is_open: -> if not (count < LIMIT and"
    " self.is_open):",
    "Counter.take: and/or: count < LIMIT and self.is_open -> count < LIMIT or self.is_open",
    "Counter.take: boundary: count < LIMIT -> count <= LIMIT",
    "Counter.take: comparison: count < LIMIT -> count > LIMIT",
    "Counter.take: statement: self.taken += count -> (dropped)",
    "Counter.take: return: return self.taken * 2 -> return None",
    "Counter.take: arithmetic: self.taken * 2 -> self.taken // 2",
    "Counter.take: constant: 2 -> 3",
    "Counter.take: statement: raise ValueError('too many') -> (dropped)",
    "Counter.take: exception: raise ValueError('too many') -> raise RuntimeError('too many')",
    "both: await order: async def both(one, other): -> async def both(one, other):",
    "both: statement: await one() -> (dropped)",
    "both: statement: await other() -> (dropped)",
    "both: constant: True -> False",
}


def mutant(name: str) -> Mutant:
    (found,) = (each for each in mutants_of("m.py", MODULE) if each.name == f"m.py {name}")
    return found


def test_each_place_gets_each_change_that_fits_and_texts_get_none() -> None:
    names = [each.name.removeprefix("m.py ") for each in mutants_of("m.py", MODULE)]
    assert set(names) == EXPECTED
    assert len(names) == len(EXPECTED)


def test_a_mutant_is_planted_where_it_says_and_nowhere_else() -> None:
    healthy = ast.unparse(ast.parse(MODULE)).splitlines()
    for each in mutants_of("m.py", MODULE):
        changed = ast.unparse(each.planted(MODULE)).splitlines()
        assert changed != healthy
        if each.operator != "await order":
            assert sum(a != b for a, b in zip(healthy, changed, strict=True)) == 1


def functions() -> dict[str, FunctionType]:
    namespace: dict[str, object] = {}
    exec(compile(MODULE, str(ROOT / "m.py"), "exec"), namespace)
    counter, both = namespace["Counter"], namespace["both"]
    assert isinstance(both, FunctionType)
    return {"take": vars(counter)["take"], "both": both}


def test_a_function_gets_the_code_of_its_mutant() -> None:
    found = functions()
    planted = mutant("Counter.take: boundary: count < LIMIT -> count <= LIMIT").planted(MODULE)
    [(function, code)] = exchanged(found.values(), "m.py", MODULE, planted) or []
    assert function is found["take"]
    assert isinstance(code, CodeType)

    class Full:
        is_open, taken = True, 0

    with pytest.raises(ValueError, match="too many"):
        function(Full(), 3)
    function.__code__ = code
    assert function(Full(), 3) == 6


def test_each_equivalent_mutant_exists_and_has_a_reason() -> None:
    by_file = defaultdict(set)
    for name, reason in EQUIVALENT.items():
        by_file[name.partition(" ")[0]].add(name)
        assert reason.endswith(".")
    for file, names in by_file.items():
        assert names <= {each.name for each in mutants_of(file, (ROOT / file).read_text())}
