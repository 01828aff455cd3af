"""Placement within HyperNodes: the domains of a network, of which a gang may be confined to one.

``index`` resolves HyperNodes to nodes and follows changes, ``domains`` lists the HyperNodes that have room
for pods, best first, and the order in which their parts are filled.  The room of nodes is that of
``placement.node_ranking``, so that all filters count.

HyperNodes are no ``placement.topology.tree``: they may overlap, skip tiers and leave nodes out, so a domain
is a set of nodes, and not a path of labels.
"""
