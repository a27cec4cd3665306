"""A broker's HTTP side, with the paths and the JSON of Pulsar's admin API.

    server         the port, and limits on what clients may send
    http, call     the table of paths; a request and the errors that refuse it
    csrf           refuses requests that another site's page makes a browser send
    clusters, namespaces, policies   clusters, tenants and brokers; namespaces and their settings
    topics, partitions, stats        topics, the partitions of one, what happens in it
    subscriptions, messages          a topic's subscriptions and single messages
    schemas                          a topic's schemas

What is not supported answers 501 with a sentence.  These modules only translate requests;
`labkit.system.broker` does the work.

Read `http` and `topics` first.
"""
