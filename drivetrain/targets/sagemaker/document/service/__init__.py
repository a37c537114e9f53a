"""What the service accepts and answers, offline: its shapes, patterns and properties."""
