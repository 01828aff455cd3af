"""Plain pods and pod groups as kinds of the job framework, and what webhooks add to pods."""
