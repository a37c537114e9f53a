"""What an evaluation leaves: numbers, curves, pictures, predictions."""
