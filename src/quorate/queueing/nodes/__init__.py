"""The account of nodes: what pods and places take of them, by flavor; it knows no rule of placement."""
