"""The batch/v1 Job controller: what a job and its pods call for (``plan``), and carrying it out."""
