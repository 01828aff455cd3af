"""What an installation in a cluster is made of; ``deploy/`` holds it as files."""
