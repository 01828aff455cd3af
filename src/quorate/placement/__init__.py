"""Which nodes can hold which pods: node capacities, pod shapes, fit, and many equal pods in a row.

From the facts to the answer: ``amounts`` are what pods ask for and nodes have; ``shapes`` is what equal pods
share; ``cluster`` is the table of nodes and of who is on them; ``constraints`` say which nodes take a shape
whatever room they have (as ``filter_result`` puts it); ``node_finder`` find the best node, with the points of
``scoring``; ``statuses`` are the answers.  Import from these modules: this one is empty, as ``amounts``
serves processes that place nothing and need not load numpy.
"""
