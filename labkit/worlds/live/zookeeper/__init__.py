"""A real ZooKeeper server, and sessions with it.

    server  runs Apache ZooKeeper from PySpark's jars
    store   implements the `MetadataStore` port with a kazoo session
    secret  the secret with which clients authenticate to the server

Read `store` and `server` first.
"""
