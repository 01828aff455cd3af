"""Volumes of pods: their content, and the directories of the host that hold it."""
