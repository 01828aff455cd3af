"""How fast the gang core is, and how well it places gangs, alone in one process."""
