"""What starts a project of the user's, and looks after the machine that it runs on."""
