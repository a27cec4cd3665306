"""Variants of the system, each with one well-known mistake.

    variants          the table: name, what is wrong, which promise it breaks
    storage_variants, client_variants, broker_variants, cluster_variants
                      the mistakes themselves, each one rule of the real code changed

Read `variants` and `storage_variants` first.
"""
