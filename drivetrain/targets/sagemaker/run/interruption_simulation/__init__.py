"""Simulated spot interruptions: a training job loses its machines when the user says, and resumes on new ones."""
