"""Spot interruptions, rehearsed: a training job loses its machines where the user says, and goes on on new ones."""
