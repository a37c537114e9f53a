"""Commands that start a user's project, and check the machine that it runs on."""
