"""Manifests of an installation in a cluster; ``deploy/`` holds them as files."""
