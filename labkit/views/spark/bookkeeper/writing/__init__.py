"""The sink: writes rows to topics through a broker.

    write_options  parses and checks the options and columns of a write query
    messages       turns rows into messages
    sending        sends the messages of a task, at least once or exactly once
    writers        the classes that Spark calls

Read `writers` first.
"""
