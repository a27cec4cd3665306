"""Variants of the system, each of which has one well-known bug.

    variants          the table: name, what is wrong, which promise it breaks
    storage_variants, client_variants, broker_variants, cluster_variants
                      the bugs themselves, each a change to one rule of the real code

Start with `variants` and `storage_variants`.
"""
