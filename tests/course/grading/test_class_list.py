from pathlib import Path

import pytest

from labkit.course.grading.class_list import ClassListError, Student, read_class_list


def listed(folder: Path, text: str) -> dict[str, Student]:
    file = folder / "class.csv"
    file.write_text(text, encoding="utf-8-sig")
    return read_class_list(file)


def test_a_list_of_names_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    assert listed(tmp_path, "Zoë\n\n bob \n") == {"Zoë": Student("Zoë"), "bob": Student("bob")}


def test_a_table_gives_ids_and_times_in_any_order_of_columns(tmp_path: Path) -> None:
    ada, bob = listed(
        tmp_path, 'id,student,handed_in\n17,"Ada, L",2026-12-01T17:30\n18,bob\n'
    ).values()
    assert (ada.name, ada.id) == ("Ada, L", "17")
    assert ada.handed_in is not None
    assert ada.handed_in.isoformat().startswith("2026-12-01T17:30")
    assert bob == Student("bob", "18")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ada\nada\n", "duplicate name 'ada'"),
        ("student,id\nada,1\nada,2\n", "duplicate name 'ada'"),
        ("../ada\n", "not a valid folder name"),
        (".ada\n", "not a valid folder name"),
        ("student,id\n,1\n", "'' is not a valid folder name"),
        ("\n\n", "contains no names"),
        ("student,mail\nada,a@b\n", "unknown columns \\(mail\\); valid columns: student, id"),
        ("student,handed_in\nada,noon\n", "'noon' is not a time such as"),
        ("student,id\nada,1,2\n", "'ada' has too many columns"),
    ],
)
def test_an_invalid_list_is_refused_with_the_reason(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ClassListError, match=problem):
        listed(tmp_path, text)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_columns_may_be_separated_as_spreadsheets_do(tmp_path: Path, delimiter: str) -> None:
    text = "student,id,handed_in\nAda,4711,\n".replace(",", delimiter)
    assert listed(tmp_path, text) == {"Ada": Student("Ada", "4711")}
