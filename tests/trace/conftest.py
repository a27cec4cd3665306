from hypothesis import settings

# A slow machine is no failure.
settings.register_profile("no assertion on time", deadline=None)
settings.load_profile("no assertion on time")
