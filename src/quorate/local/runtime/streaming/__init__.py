"""Streams of containers: logs, exec, attach and port-forward, as a kubelet serves them."""
