"""The kinds of job, one module for each project that defines them."""
