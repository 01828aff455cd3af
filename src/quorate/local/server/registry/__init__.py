"""The served kinds and the strategy of each: decoding, conversion, defaults, validation."""
