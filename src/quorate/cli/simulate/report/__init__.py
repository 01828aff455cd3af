"""A report of runs: one HTML file with charts, which needs no network.

``series`` are the numbers of the charts, ``figures`` the charts, ``page`` the file.
"""
