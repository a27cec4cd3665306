"""Tools that show the system: widgets, a shell, and Spark tables.

    xray/     labels every byte of a bookie's files, of ledger metadata and of messages
    widgets/  interactive views of a trace, for notebooks and web pages
    shell/    inspects a bookie's files without a running bookie, and queries or repairs a cluster
    spark/    topics, ledgers and traces as Spark tables

Views are read-only, except for some shell commands that repair or delete things.

Read `widgets/drawing/scene.py` and `spark/bookkeeper/__init__.py` first.
"""
