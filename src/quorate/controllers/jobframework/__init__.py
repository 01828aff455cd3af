"""The job framework: everything about the workload of a job that does not depend on the kind of job."""
