"""The processes of a host: started, watched, ended, and the reason why one failed."""
