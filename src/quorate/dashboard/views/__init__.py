"""What one caller sees of the model, as values of the schema."""
