"""Evaluation of CEL expressions, in processes with a bound on processor time and memory."""
