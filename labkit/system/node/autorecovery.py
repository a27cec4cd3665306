"""Autorecovery that goes on: when its session is lost, it begins again in another one.

In BookKeeper: `replication/AutoRecoveryMain.java`, which ends instead.
"""

import asyncio
from typing import NoReturn

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import AutoRecovery, Rules
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.node.ports import ServerPorts

_BETWEEN_SESSIONS_S = 1.0


async def keep_recovering(
    ports: ServerPorts,
    config: AutoRecoveryConfig,
    rules: Rules | None = None,
    own_bookie: str = "",
) -> NoReturn:
    """Run autorecovery for ever, in one session after the other.

    `own_bookie` is the bookie in whose process this runs, if there is one.  Raises `LabkitError`
    when a part of autorecovery dies of anything but a lost session.
    """
    loop, follows_lost_session = asyncio.get_running_loop(), False
    while True:
        begun_at = loop.time()
        try:
            session = await ports.begin_session()
            # A store that takes that long to begin a session may have hung, and ended others.
            was_slow = loop.time() - begun_at > session.session_timeout_s / 2
            client = ports.new_client(session, config.client)
            try:
                await AutoRecovery(
                    ports.node,
                    client,
                    config,
                    ports.draw,
                    rules,
                    own_bookie=own_bookie,
                    follows_silence=follows_lost_session or was_slow,
                ).run()
            finally:
                client.close()
                await session.stop()
        except MetadataUnavailableError as error:
            ports.recorder.record("autorecovery.restarted", note=str(error))
        # Whatever ended the metadata session may have ended those of bookies, too.
        follows_lost_session = True
        await asyncio.sleep(_BETWEEN_SESSIONS_S)
