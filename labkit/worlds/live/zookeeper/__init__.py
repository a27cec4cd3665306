"""A real ZooKeeper: its server, and sessions with it.

    server  runs ZooKeeper from PySpark's jars
    store   a session through kazoo, behind the port `MetadataStore`
    secret  how the server and its clients know each other

Read `store` and `server` first.
"""
