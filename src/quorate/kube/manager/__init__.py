"""What runs controllers: leader election, configuration changes, cancellation."""
