"""An execution that goes on: with what is done, with another definition, after a killed runner."""
