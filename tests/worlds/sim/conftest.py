import pytest


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config) -> pytest.Cache:
    """pytest's cache, for what takes long to install: it outlives the run."""
    cache: pytest.Cache | None = getattr(pytestconfig, "cache", None)
    if cache is None:
        pytest.skip("its environment is kept in pytest's cache: run without `-p no:cacheprovider`")
    return cache
