"""Find runs again, name them, and throw them away."""
