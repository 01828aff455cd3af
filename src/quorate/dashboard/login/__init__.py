"""Users: their sessions, how they log in, and what they may see."""
