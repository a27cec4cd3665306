"""A broker's HTTP server, with the paths and the JSON of Pulsar's admin API.

    server         the HTTP server, and limits on what clients may send
    http, call     request handlers and status codes; the parsed request
    csrf           rejects requests that another site's page makes a browser send
    clusters, namespaces, policies   clusters, tenants, brokers; namespaces and their settings
    topics, partitions               topics and their statistics; requests for each partition
    subscriptions, messages          a topic's subscriptions and individual messages
    schemas                          a topic's schemas

Unsupported requests get status 501 with an explanation. These modules only translate requests and
responses. `labkit.system.broker` does the work.

Read `http` and `topics` first.
"""
