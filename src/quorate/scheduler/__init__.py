"""The gang scheduler as a process: it tells the gang core what happened and carries out what it decides."""
