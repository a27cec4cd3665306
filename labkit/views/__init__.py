"""Ways to look at the system: pictures, tables, and a reader of bookies' files.

    widgets/  pictures of a trace, for notebooks and web pages
    shell/    what a bookie's files contain, without a running bookie; what a cluster knows
    spark/    topics, ledgers and traces as tables in Spark

A view reads; it never changes what it shows.  Only `shell` has commands that repair, and their
names say so.

Read `widgets/scene.py` and `spark/bookkeeper/__init__.py` first.
"""
