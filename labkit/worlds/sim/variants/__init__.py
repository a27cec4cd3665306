"""The system with one well-known mistake, by its name.

    variants          the table: name, what is wrong, which promise it breaks
    storage_variants, client_variants, broker_variants, cluster_variants
                      the mistakes themselves, each one rule of the real code changed

A variant overrides a documented method of the real code and never copies it.

Read `variants` and `storage_variants` first.
"""
