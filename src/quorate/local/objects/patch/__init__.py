"""The four ways to change part of an object, and who owns which field afterwards."""
