"""State machines of Step Functions (the States Language), read as definitions."""
