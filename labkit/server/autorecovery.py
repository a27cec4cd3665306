"""Autorecovery that goes on: when its session is lost, it begins again in another one.

In BookKeeper: `replication/AutoRecoveryMain.java`, which ends instead.
"""

import asyncio
from typing import NoReturn

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.autorecovery.daemon import AutoRecovery, Rules
from labkit.metadata.store import MetadataUnavailableError
from labkit.server.ports import ServerPorts

_BETWEEN_SESSIONS_S = 1.0


async def keep_recovering(
    ports: ServerPorts, config: AutoRecoveryConfig, rules: Rules | None = None
) -> NoReturn:
    """Run autorecovery for ever, in one session after the other.

    Raises `LabkitError` when a part of it dies of anything but a lost session.
    """
    while True:
        try:
            await _recover_in_one_session(ports, config, rules)
        except MetadataUnavailableError as error:
            ports.recorder.record("autorecovery.restarted", note=str(error))
        await asyncio.sleep(_BETWEEN_SESSIONS_S)


async def _recover_in_one_session(
    ports: ServerPorts, config: AutoRecoveryConfig, rules: Rules | None
) -> None:
    session = await ports.begin_session()
    client = ports.new_client(session, config.client)
    try:
        await AutoRecovery(ports.node, client, config, ports.draw, rules).run()
    finally:
        client.close()
        await session.stop()
