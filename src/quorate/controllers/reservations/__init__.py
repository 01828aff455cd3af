"""The status of Reservations: when their windows begin and end, and what conflicts with them."""
