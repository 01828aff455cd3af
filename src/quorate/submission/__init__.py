"""Jobs from a few options: the objects of a job that runs one command, and options in comments of scripts.

Entry points: ``JobRequest`` and ``objects_of``; ``read_script``.
Imports api and the names of kinds in kube.
"""
