"""Runs autorecovery, and restarts it in a new session if the metadata store reports an error.

In BookKeeper: `replication/AutoRecoveryMain.java`, which exits instead.
"""

import asyncio
from typing import NoReturn

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import AutoRecovery, Rules
from labkit.system.metadata.store import MetadataError
from labkit.system.node.ports import ServerPorts

_BETWEEN_SESSIONS_S = 1.0


async def run_autorecovery_forever(
    ports: ServerPorts,
    config: AutoRecoveryConfig,
    rules: Rules | None = None,
    own_bookie: str = "",
) -> NoReturn:
    """Raise the error of a component that fails, unless it is a `MetadataError`: a lost session, or
    for example a node that another client has deleted in the meantime.

    `own_bookie` is the id of the bookie that runs in the same process, if any.
    """
    loop = asyncio.get_running_loop()
    follows_lost_session = False
    while True:
        begun_at = loop.time()
        try:
            session = await ports.begin_session()
            # If it took a long time to start the session, the store may have been hanging, and
            # sessions may have expired.
            was_slow = loop.time() - begun_at > session.session_timeout_s / 2
            client = ports.new_client(session, config.client_config)
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
        except MetadataError as error:
            ports.recorder.record("autorecovery.restarted", explanation=str(error))
        # Whatever ended autorecovery's session may also have ended the sessions of bookies.
        follows_lost_session = True
        await asyncio.sleep(_BETWEEN_SESSIONS_S)
