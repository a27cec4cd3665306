import pytest

from labkit.system.metadata.ledger_layout import (
    FLAT,
    HIERARCHICAL,
    LAYOUTS,
    LEGACY_HIERARCHICAL,
    LONG_HIERARCHICAL,
    ForeignLayoutError,
    LedgerLayout,
    decode_ledger_layout,
)
from labkit.system.model.errors import BKIncorrectParameterException

PATHS = {
    0: ("L0000000000", "00/0000/L0000", "000/0000/0000/0000/L0000", "00/0000/L0000"),
    12345: ("L0000012345", "00/0001/L2345", "000/0000/0000/0001/L2345", "00/0001/L2345"),
    2147483646: ("L2147483646", "21/4748/L3646", "000/0000/0021/4748/L3646", "21/4748/L3646"),
    2147483647: (
        "L2147483647",
        "21/4748/L3647",
        "000/0000/0021/4748/L3647",
        "000/0000/0021/4748/L3647",
    ),
    4294967301: (
        "L4294967301",
        "42/9496/L7301",
        "000/0000/0042/9496/L7301",
        "000/0000/0042/9496/L7301",
    ),
}


@pytest.mark.promise("Every ledger layout and the LAYOUT znode are supported")
@pytest.mark.parametrize("ledger_id", PATHS)
def test_ledger_lies_where_bookkeeper_puts_it(ledger_id: int) -> None:
    layouts = (FLAT, LEGACY_HIERARCHICAL, LONG_HIERARCHICAL, HIERARCHICAL)
    assert tuple(layout.path_of(ledger_id) for layout in layouts) == PATHS[ledger_id]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_node_names_bookkeepers_class(layout: LedgerLayout) -> None:
    data = f"2\norg.apache.bookkeeper.meta.{layout.factory}:1".encode()
    assert layout.encode() == data
    assert decode_ledger_layout(data) is layout


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_layout_node_of_format_1_has_the_short_name(layout: LedgerLayout) -> None:
    assert decode_ledger_layout(f"1\n{layout.name}:1".encode()) is layout


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"2\norg.apache.bookkeeper.meta.MSLedgerManagerFactory:1",
        b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:2",
        b"3\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1",
        b"2\nflat:1",
        b"\xff",
    ],
)
def test_layout_that_is_not_known_is_rejected_with_those_that_are(data: bytes) -> None:
    with pytest.raises(ForeignLayoutError, match="supports the ledger managers hierarchical, flat"):
        decode_ledger_layout(data)


@pytest.mark.parametrize(("layout", "ledger_id"), [(FLAT, 10**10), (FLAT, -1), (HIERARCHICAL, -7)])
def test_id_that_does_not_fit_its_layout_is_rejected(layout: LedgerLayout, ledger_id: int) -> None:
    with pytest.raises(BKIncorrectParameterException, match=r"does not fit the .* layout"):
        layout.path_of(ledger_id)


def test_layouts_with_a_path_for_long_ids_give_them_out() -> None:
    assert [layout.long_ids for layout in (FLAT, LEGACY_HIERARCHICAL)] == [False, False]
    assert [layout.long_ids for layout in (LONG_HIERARCHICAL, HIERARCHICAL)] == [True, True]
