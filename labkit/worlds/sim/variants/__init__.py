"""Variants of the system, each of which has one well-known bug.

    variants          the table of variants: the name, the bug, and the promise that the bug breaks
    storage_variants, client_variants, broker_variants, cluster_variants
                      the bugs themselves, each of which changes one rule of the real code

Start with `variants` and `storage_variants`.
"""
