from tests.worlds.live.admin_site import site

__all__ = ["site"]
