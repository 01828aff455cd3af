"""Generated reference pages."""

from reference import commands, dashboard_api, filter_failures, kinds, rights

PAGES = {
    "commands.md": commands.page,
    "dashboard-api.md": dashboard_api.page,
    "kinds.md": kinds.page,
    "gang-kinds.md": kinds.gang_page,
    "filter-failures.md": filter_failures.page,
    "rights.md": rights.page,
}

__all__ = ["PAGES"]
