"""The served kinds and the strategy of each: decoding, defaults, validation."""
