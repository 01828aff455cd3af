"""When waiting workloads start: learned run times, forecasts of snapshots, and their backtests."""
