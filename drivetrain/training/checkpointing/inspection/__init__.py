"""What people see of checkpoints: lists, contents, verification, export. Standard library only, on any machine."""
